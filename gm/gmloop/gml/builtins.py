"""The names that GameMaker itself brings: functions, variables, and what is known of them.

The function and variable names come from `gm.gmloop.gml.builtins_data`, which ``gmloop generate-builtins`` makes
of the published JavaScript runtime; the user's own ``GmlSpec.xml`` is more complete and replaces them.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gm.errors import UsageError
from gm.gmloop.gml import builtins_data

_READ_ONLY: Final = """
argument_count bbox_bottom bbox_left bbox_right bbox_top browser_height browser_width current_day current_hour
current_minute current_month current_second current_time current_weekday current_year debug_mode delta_time display_aa
event_number event_object event_type fps fps_real game_display_name game_id game_project_name game_save_id id
image_number instance_count instance_id iap_data mouse_x mouse_y object_index os_browser os_device os_type os_version
path_index program_directory room_first room_last sprite_xoffset sprite_yoffset temp_directory view_current
webgl_enabled working_directory
"""
READ_ONLY: Final = frozenset(_READ_ONLY.split())
CONSTANT: Final = re.compile(
    r"(?:c|vk|mb|ev|fa|bm|gp|os|pr|ty|ps|pt|ef|of|cr|tf|cmpfunc|cull|lighttype|audio|buffer|vertex|network|display|"
    r"timezone|phy|physics|path|tile|layer|layerelementtype|browser|device|dll|ds_type|asset|bboxkind|bboxmode|button|"
    r"seqtracktype|seqplay|seqdir|seqinterpolation|seqtextkey|seqaudiokey|spritespeed|surface|stencilop|time_source|"
    r"animcurvetype|m|matrix|achievement|iap|ov|lb|leaderboard|ugc|user_ugc|sprite|texturegroup|gamespeed|kbv|nineslice|"
    r"font|tm|ex|sp|rollback|textalign|fx|particle|video|blend|ps_mode|ps_shape|ps_distr|flexpanel\w*|pointer|"
    r"tile_rotate|mip|tm|cm|gpu)_[a-z0-9_]+\Z"
)
_WORDS: Final = """
true false self other all noone global undefined pi infinity NaN pointer_null pointer_invalid GM_build_date GM_version
GM_runtime_version GM_project_filename GM_build_type GM_is_sandboxed _GMFILE_ _GMLINE_ _GMFUNCTION_ argument argument0
argument1 argument2 argument3 argument4 argument5 argument6 argument7 argument8 argument9 argument10 argument11
argument12 argument13 argument14 argument15 argument_count argument_relative constructor static event_data async_load
application_surface typeof instanceof nameof instance_id alarm audio_debug camera_get_active event_perform event_user
"""
WORDS: Final = frozenset(_WORDS.split())
_BESIDE: Final = """
get_timer gml_pragma handle_parse instanceof is_instanceof method nameof randomise round typeof
"""
BESIDE: Final = frozenset(_BESIDE.split())
"""Functions that the JavaScript runtime makes in other ways than those that the data file is made of."""
DEPRECATED_FUNCTIONS: Final[dict[str, str]] = {
    "array_length_1d": "array_length",
    "array_height_2d": "array_length",
    "array_length_2d": "array_length",
    "background_get_height": "",
    "d3d_start": "",
    "draw_set_alpha_test": "gpu_set_alphatestenable",
    "draw_set_alpha_test_ref_value": "gpu_set_alphatestref",
    "draw_set_blend_mode": "gpu_set_blendmode",
    "draw_set_blend_mode_ext": "gpu_set_blendmode_ext",
    "draw_enable_alphablend": "gpu_set_blendenable",
    "instance_create": "instance_create_layer",
    "os_lock_orientation": "",
    "texture_set_interpolation": "gpu_set_texfilter",
    "texture_set_repeat": "gpu_set_texrepeat",
}
DEPRECATED_CONSTANTS: Final[dict[str, str]] = {
    "buffer_surface_copy": "",
    "os_win32": "os_windows",
}
DEPRECATED_VARIABLES: Final[dict[str, str]] = {
    "background_color": "",
    "background_colour": "",
    "background_showcolor": "",
    "background_showcolour": "",
    "room_caption": "window_set_caption",
    "show_lives": "",
    "show_score": "",
    "show_health": "",
    "caption_lives": "",
    "caption_score": "",
    "caption_health": "",
    "transition_kind": "",
    "transition_steps": "",
    "secure_mode": "",
    "gamemaker_registered": "",
    "gamemaker_pro": "",
}


@dataclass(frozen=True, slots=True)
class Builtins:
    """Names that GameMaker brings.

    Attributes:
        functions: name to least and most arguments; -1 for what is not known.
        variables: builtin variables.
        constants: builtin constants; empty when only their prefixes are known.
        complete: the lists are the whole of a runtime's.
    """

    functions: dict[str, tuple[int, int]]
    variables: frozenset[str]
    constants: frozenset[str]
    complete: bool

    def knows(self, name: str) -> bool:
        """Tell whether a name is, or by its form may be, one of GameMaker's own."""
        return (
            name in self.functions
            or name in self.variables
            or name in WORDS
            or name in self.constants
            or (not self.constants and CONSTANT.match(name) is not None)
        )


def bundled() -> Builtins:
    """Return the names that gmloop brings."""
    functions = dict.fromkeys((*builtins_data.FUNCTIONS.split(), *BESIDE), (-1, -1))
    return Builtins(functions, READ_ONLY.union(builtins_data.VARIABLES.split()), frozenset(), False)


def from_gml_spec(path: Path) -> Builtins:
    """Read the ``GmlSpec.xml`` of an installed runtime.

    Raises:
        UsageError: the file is no such XML.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise UsageError("gml_spec_invalid", f"{path} is no GmlSpec.xml: {error}", "Correct 'gmlSpec'.") from None
    functions: dict[str, tuple[int, int]] = {}
    for item in root.iter("Function"):
        parameters = item.findall("Parameter")
        names = [parameter.get("Name", "") for parameter in parameters]
        endless = any(name.startswith("...") for name in names)
        least = sum(1 for parameter in parameters if parameter.get("Optional", "false").lower() != "true")
        functions[item.get("Name", "")] = (-1 if endless else least, -1 if endless else len(parameters))
    variables = frozenset(item.get("Name", "") for item in root.iter("Variable"))
    constants = frozenset(item.get("Name", "") for item in root.iter("Constant"))
    return Builtins(functions, variables, constants, True)
