"""What a plan is to reach: one arena, several memories, or a fast memory that is too small. A strategy each."""

from lowtide.api.goals.fast_memory import FastMemory
from lowtide.api.goals.one_arena import OneArena
from lowtide.api.goals.several_memories import SeveralMemories

__all__ = ["FastMemory", "OneArena", "SeveralMemories"]
