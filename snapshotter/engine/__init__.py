"""The engine: its runs, what signals make it do, how it starts and ends, and what it is put together from."""
