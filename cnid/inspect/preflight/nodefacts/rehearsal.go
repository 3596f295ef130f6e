// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// BTFFile has the types of the running kernel.
const BTFFile = "/sys/kernel/btf/vmlinux"

// rehearsal is an installation in a network namespace that ends with it. Each step equals a step
// of the daemon's start, by the same code.
type rehearsal struct {
	values  preflight.Values
	dir     string
	indexes netdev.Indexes
}

// rehearse returns the failures of an installation on this kernel.
func rehearse(ctx context.Context, cfg Config) (problems []preflight.Problem) {
	dir, err := os.MkdirTemp("", "alioth-preflight-")
	if err != nil {
		return []preflight.Problem{
			{
				Part:   "a folder for the rehearsal of the installation",
				Error:  err.Error(),
				Remedy: "free some space in the folder for temporary files",
			},
		}
	}
	defer os.RemoveAll(dir)
	r := &rehearsal{values: cfg.Values, dir: dir}
	note := func(part, remedy string, err error) bool {
		if err != nil {
			problems = append(problems, preflight.Problem{Part: part, Error: short(err), Remedy: remedy})
		}
		return err == nil
	}
	if _, err := os.Stat(BTFFile); err != nil {
		note(
			"types of the kernel (BTF)",
			"boot a kernel with CONFIG_DEBUG_INFO_BTF, as the kernels of distributions have it",
			err,
		)
	}
	err = podside.Try(ctx, func() error {
		note(
			"the packet filter",
			"load the modules nf_tables, nft_ct, nft_masq, nft_fib and nf_conntrack, or boot a kernel with these options",
			r.filter(),
		)
		if note(
			"the devices of the tunnel",
			"load the modules vxlan and veth, or boot a kernel with CONFIG_VXLAN and CONFIG_VETH",
			r.devices(),
		) {
			note(
				"the BPF programs",
				"boot a kernel with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_CGROUP_BPF, CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
				r.programs(),
			)
		}
		return nil
	})
	note("a network namespace", "boot a kernel with CONFIG_NET_NS", err)
	return append(problems, kinds(ctx)...)
}

// filter makes the table of the daemon.
func (r *rehearsal) filter() error {
	s := ruleset.State{
		Shadows: r.values.ShadowCIDRs, TunnelPort: r.values.TunnelPort, PodGroup: hostdev.PodGroup,
		PodKinds:   hostdev.PodKinds,
		NodeDevice: hostdev.Node, SealedDevices: []string{hostdev.Tunnel, hostdev.NodePeer, hostdev.FragmentPeer},
		MarkMask: state.MarkMask, SharedMark: state.MarkShared, EgressMark: state.MarkEgress, NodeMark: state.MarkNode,
		OpeningMark: state.MarkOpening, TunneledMark: state.MarkTunneled, FlowsPerShadow: 1,
	}
	for _, shadow := range r.values.ShadowCIDRs {
		s.NodeShadows = append(s.NodeShadows, journal.NodeShadow(shadow))
	}
	_, err := netfilter.Apply(s)
	return err
}

// rehearsalMTU fits any network.
const rehearsalMTU = 1450

func (r *rehearsal) devices() error {
	host, err := netdev.New(filepath.Join(r.dir, "settings"), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer host.Close()
	r.indexes, err = host.Links(netdev.Devices{TunnelPort: r.values.TunnelPort, MTU: rehearsalMTU})
	return err
}

// programs loads the programs and attaches one of them to a device, in the way that every
// supported kernel has.
func (r *rehearsal) programs() error {
	cfg := programs.Config{VXLANIfindex: r.indexes.Tunnel, TunnelPort: r.values.TunnelPort}
	for _, shadow := range r.values.ShadowCIDRs {
		if address := journal.NodeShadow(shadow); address.Is4() {
			cfg.NodeShadow4 = address
		} else {
			cfg.NodeShadow6 = address
		}
	}
	objects, err := programs.Try(cfg)
	if err != nil {
		return err
	}
	defer objects.Close()
	return attachTo(r.indexes.Node, objects.AliothFromPod)
}

// attachTo attaches a program by clsact and cls_bpf.
func attachTo(ifindex int, program *ebpf.Program) error {
	clsact := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: ifindex,
			Handle:    netlink.MakeHandle(0xffff, 0),
			Parent:    netlink.HANDLE_CLSACT,
		}, QdiscType: "clsact",
	}
	if err := netlink.QdiscAdd(clsact); err != nil {
		return fmt.Errorf("add the queueing discipline clsact: %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex,
			Parent:    netlink.HANDLE_MIN_INGRESS,
			Handle:    1,
			Protocol:  unix.ETH_P_ALL,
			Priority:  1,
		},
		Fd: program.FD(), Name: "alioth_preflight", DirectAction: true,
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("attach a program by cls_bpf: %w", err)
	}
	return nil
}

// kinds returns the kinds of interfaces that the kernel lacks.
func kinds(ctx context.Context) (problems []preflight.Problem) {
	for _, kind := range drivers.All() {
		if err := kind.Probe(ctx); errors.Is(err, ifdriver.ErrUnsupported) {
			problems = append(problems, preflight.Problem{
				Kind: kind.Kind, Part: fmt.Sprintf("interfaces of kind %s", kind.Kind), Error: short(err), Remedy: "pods of this node can't have such interfaces",
			})
		}
	}
	return problems
}

// short returns the first line of an error: the verifier's log has thousands.
func short(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return quote.Message(strings.TrimSuffix(first, ":"))
}
