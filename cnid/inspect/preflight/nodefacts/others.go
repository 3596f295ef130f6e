// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/ebpf/bpf"
)

// filters finds packet filters of other programs that drop Alioth's packets, and chains that
// translate sources.
func (n *node) filters(ctx context.Context) {
	traffic := foreign.Traffic{
		Shadows: n.cfg.Values.ShadowCIDRs, PodGroup: hostdev.PodGroup, PodDevices: hostdev.PodPrefix,
		NodeDevice: hostdev.Node, TunnelPort: n.cfg.Values.TunnelPort,
	}
	blocks, err := foreign.Blocks(ctx, traffic)
	n.unread("read packet filters", err)
	for _, block := range blocks {
		n.Blocks = append(n.Blocks, block.String())
	}
	n.Unread = append(n.Unread, foreign.Unread()...)
	chains, err := (&nftables.Conn{}).ListChains()
	n.unread("list packet filter chains", err)
	for _, chain := range chains {
		own := chain.Table.Name == netfilter.TableName
		if !own && chain.Type == nftables.ChainTypeNAT && chain.Hooknum != nil &&
			*chain.Hooknum == *nftables.ChainHookPostrouting {
			n.Masquerading = append(n.Masquerading, fmt.Sprintf("table %s chain %s", chain.Table.Name, chain.Name))
		}
	}
	slices.Sort(n.Masquerading)
}

// hooks finds programs of others at the devices with addresses of the node, and at its root
// cgroup.
func (n *node) hooks() {
	var seen []string
	for _, uplink := range n.Uplinks {
		if slices.Contains(seen, uplink.Device) {
			continue
		}
		seen = append(seen, uplink.Device)
		device, err := netlink.LinkByName(uplink.Device)
		if err != nil {
			n.unread("find the device "+uplink.Device, err)
			continue
		}
		n.deviceHooks(device)
	}
	root, err := install.CgroupRoot(n.cfg.Values.Daemon.CgroupRoot)
	if err != nil {
		return // it has a finding of its own
	}
	dir, err := os.Open(root)
	if err != nil {
		n.unread("open the root cgroup", err)
		return
	}
	defer dir.Close()
	for name, hook := range map[string]ebpf.AttachType{
		"connect of IPv4": ebpf.AttachCGroupInet4Connect, "connect of IPv6": ebpf.AttachCGroupInet6Connect,
		"sendmsg of IPv4": ebpf.AttachCGroupUDP4Sendmsg, "sendmsg of IPv6": ebpf.AttachCGroupUDP6Sendmsg,
	} {
		n.queried(int(dir.Fd()), hook, name+" at the root cgroup", "")
	}
	slices.SortFunc(n.Programs, func(a, b preflight.Program) int {
		return strings.Compare(a.Device+a.Hook+a.Name, b.Device+b.Hook+b.Name)
	})
}

func (n *node) deviceHooks(device netlink.Link) {
	attrs := device.Attrs()
	if attrs.Xdp != nil && attrs.Xdp.Attached {
		n.program(ebpf.ProgramID(attrs.Xdp.ProgId), "XDP", attrs.Name)
	}
	n.queried(attrs.Index, ebpf.AttachTCXIngress, "tc ingress", attrs.Name)
	n.queried(attrs.Index, ebpf.AttachTCXEgress, "tc egress", attrs.Name)
	for side, parent := range map[string]uint32{"ingress": netlink.HANDLE_MIN_INGRESS, "egress": netlink.HANDLE_MIN_EGRESS} {
		filters, err := rtnl.Complete(func() ([]netlink.Filter, error) { return netlink.FilterList(device, parent) })
		if err != nil {
			n.unread("list filters of "+attrs.Name, err)
		}
		for _, filter := range filters {
			if f, ok := filter.(*netlink.BpfFilter); ok && f.Id > 0 {
				n.program(ebpf.ProgramID(f.Id), "tc "+side, attrs.Name)
			}
		}
	}
}

// queried notes the programs at a hook. A kernel without the hook has none.
func (n *node) queried(target int, hook ebpf.AttachType, name, device string) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: hook})
	if err != nil {
		if !errors.Is(err, link.ErrNotSupported) && !errors.Is(err, unix.EINVAL) { // Linux before 6.6, of TCX
			n.unread("list programs at "+name, err)
		}
		return
	}
	for _, p := range result.Programs {
		n.program(p.ID, name, device)
	}
}

// program notes a program unless it is one of Alioth.
func (n *node) program(id ebpf.ProgramID, hook, device string) {
	name := fmt.Sprintf("program %d", id)
	if p, err := ebpf.NewProgramFromID(id); err == nil {
		if info, err := p.Info(); err == nil && info.Name != "" {
			name = info.Name
		}
		p.Close()
	}
	if !strings.HasPrefix(name, bpf.Prefix) {
		n.Programs = append(n.Programs, preflight.Program{Name: name, Hook: hook, Device: device})
	}
}
