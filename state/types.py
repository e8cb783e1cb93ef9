"""The state types an app author writes, in one place."""

from streamlet.state.by_key import ByKey
from streamlet.state.declaration import PerTask, StateOptions, state
from streamlet.state.group import Group
from streamlet.state.handle import State
from streamlet.state.log import Log
from streamlet.state.map import Map
from streamlet.state.set import Set
from streamlet.state.value import Value

__all__ = ["ByKey", "Group", "Log", "Map", "PerTask", "Set", "State", "StateOptions", "Value", "state"]
