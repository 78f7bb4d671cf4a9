"""CANN's `hccl.manage.api`: the numbers of ranks and of groups of ranks. Each process is one rank."""

from acl_py.compat.acl.face.rank_groups import create_group as create_group
from acl_py.compat.acl.face.rank_groups import destroy_group as destroy_group
from acl_py.compat.acl.face.rank_groups import get_group_rank_from_world_rank as get_group_rank_from_world_rank
from acl_py.compat.acl.face.rank_groups import get_local_rank_id as get_local_rank_id
from acl_py.compat.acl.face.rank_groups import get_local_rank_size as get_local_rank_size
from acl_py.compat.acl.face.rank_groups import get_rank_id as get_rank_id
from acl_py.compat.acl.face.rank_groups import get_rank_size as get_rank_size
from acl_py.compat.acl.face.rank_groups import get_world_rank_from_group_rank as get_world_rank_from_group_rank
