# SPDX-License-Identifier: BSD-3-Clause
# cache -- where the guest's kernel and initramfs lie; prepare fills it, guest and pair read it.

testbed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$testbed/../.." && pwd)
cache=${STEPGATE_TESTBED_CACHE:-$top/build/testbed}

# cache_recipe -- a sum over everything of ours that goes into the cache
cache_recipe() {
    cat "$testbed/prepare" "$testbed/init" | sha256sum | cut -c1-16
}

# cache_ready -- whether the cache holds a guest made by this recipe; sets cache_kernel and cache_initramfs
cache_ready() {
    local now
    now=$(readlink "$cache/now" 2>/dev/null) || return 1
    [[ $now == *"-$(cache_recipe)" && -s $cache/$now/kernel && -s $cache/$now/initramfs ]] || return 1
    # The folder itself, not the link: the link may move to a newer kernel between the two reads.
    cache_kernel=$cache/$now/kernel
    cache_initramfs=$cache/$now/initramfs
}
