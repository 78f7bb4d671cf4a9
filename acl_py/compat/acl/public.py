"""The names that `acl_py.compat.acl` gives to programs: see late_imports.py."""

from acl_py.compat.acl.face.modules import install as install
from acl_py.compat.acl.face.modules import uninstall as uninstall
from acl_py.compat.acl.face.session import handle_of as handle_of
from acl_py.compat.acl.face.session import object_of as object_of
from acl_py.compat.acl.standins.kernels import Parameter as Parameter
from acl_py.compat.acl.standins.kernels import register_kernel as register_kernel
from acl_py.compat.acl.standins.kernels import unregister_kernel as unregister_kernel
from acl_py.compat.acl.standins.models import Tensor as Tensor
from acl_py.compat.acl.standins.models import register_model as register_model
from acl_py.compat.acl.standins.models import unregister_model as unregister_model
from acl_py.compat.acl.standins.operators import register_op as register_op
from acl_py.compat.acl.standins.operators import unregister_op as unregister_op
from acl_py.compat.acl.standins.videos import VideoSettings as VideoSettings
from acl_py.compat.acl.standins.videos import register_decoder as register_decoder
from acl_py.compat.acl.standins.videos import register_encoder as register_encoder
from acl_py.compat.acl.standins.videos import unregister_decoder as unregister_decoder
from acl_py.compat.acl.standins.videos import unregister_encoder as unregister_encoder
