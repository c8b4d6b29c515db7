"""What every part of the platform shares: money, time, ids, paging and intents."""
