"""What operators ask of the engine, and the ways their signals travel.

``actions`` are the things that can be asked for, ``parsing`` reads them, ``selection`` says which
collections a signal means, ``errors`` what can be wrong with it; all pure. ``source_channel`` carries
signals through a MongoDB collection, ``inbox_channel`` through a folder of small files.
"""
