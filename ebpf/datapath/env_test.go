// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// inNetns moves the test into a network namespace of its own, which lives as
// long as the test.
func inNetns(t *testing.T) netns.NsHandle {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("missing feature: network namespaces and BPF need root")
	}
	// Never unlocked: the thread ends with the test.
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	return ns
}

// enter moves a subtest, which has a goroutine of its own, into a namespace.
func enter(t *testing.T, ns netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread()
	if err := netns.Set(ns); err != nil {
		t.Fatalf("enter network namespace: %v", err)
	}
}

// bpffs mounts a bpf file system that belongs to the test.
func bpffs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount bpf file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount bpf file system: %v", err)
		}
	})
	return filepath.Join(dir, "alioth")
}

// childCgroup makes a cgroup2 directory that belongs to the test.
func childCgroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(fields[1], "alioth-ebpf-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		})
		return dir
	}
	t.Skip("missing feature: a writable cgroup2 mount")
	return ""
}

// hasTCX reports whether the kernel has links to devices; where it has none,
// filters stand in for them.
func hasTCX(t *testing.T) bool {
	t.Helper()
	const loopback = 1 // its index in every namespace
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		return false
	}
	Must(t, err)
	return true
}

// popsIPv6 reports whether a program can take an outer IPv4 header off an IPv6
// packet; where it can't, the tunnel's device does.
func popsIPv6(t *testing.T) bool {
	t.Helper()
	version, err := features.LinuxVersionCode()
	Must(t, err)
	return version >= 6<<16|3<<8
}

// pinnedLinks is how many links a node pins, with an uplink or without.
func pinnedLinks(t *testing.T, uplink bool) int {
	t.Helper()
	if !hasTCX(t) {
		return socketLinkCount()
	}
	if !uplink {
		return len(hook.LinkNames()) - 2
	}
	return len(hook.LinkNames())
}

// addLink creates a device and returns its index.
func addLink(t *testing.T, device netlink.Link) int {
	t.Helper()
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatalf("add device %s: %v", device.Attrs().Name, err)
	}
	made, err := netlink.LinkByName(device.Attrs().Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(made); err != nil {
		t.Fatalf("set device %s up: %v", device.Attrs().Name, err)
	}
	return made.Attrs().Index
}

// addPair creates a veth pair and returns the index of its first end.
func addPair(t *testing.T, name, peer string) int {
	t.Helper()
	return addLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer})
}

// addFragmenter creates the pair that fragments packets, as the configuration wants it.
func addFragmenter(t *testing.T) (ifindex, peer int) {
	t.Helper()
	ifindex = addPair(t, "frag", "frag-peer")
	tool, err := ethtool.NewEthtool()
	Must(t, err)
	defer tool.Close()
	Must(t, tool.Change("frag", map[string]bool{
		"tx-checksum-ip-generic": false, "tx-checksum-sctp": false, "tx-tcp-segmentation": false,
		"tx-tcp6-segmentation": false, "tx-udp-segmentation": false, "tx-sctp-segmentation": false,
	}))
	for _, name := range []string{"frag", "frag-peer"} {
		l, err := netlink.LinkByName(name)
		Must(t, err)
		// Without one the kernel sends nothing by itself.
		const noAddress = 1
		Must(t, netlink.LinkSetIP6AddrGenMode(l, noAddress))
		Must(t, netlink.LinkSetMTU(l, 65535))
		Must(t, netlink.LinkSetUp(l))
		peer = l.Attrs().Index
	}
	return ifindex, peer
}

// addTunnel creates a VXLAN device as the configuration wants it.
func addTunnel(t *testing.T, name string) int {
	t.Helper()
	return addLink(t, &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: name}, FlowBased: true, Port: programs.DefaultTunnelPort, UDP6ZeroCSumRx: true,
	})
}

// testLog sends the datapath's log to the test's.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// fewConnections is the size of the table of flows in tests, one for all: programs
// that are loaded with another can't be handed on.
const fewConnections = 4096

// opened is a datapath with the programs that it holds.
type opened struct {
	*Datapath
	objects *bpf.AliothObjects
	cfg     programs.Config
}

// open opens a datapath that is taken down with the test.
func open(t *testing.T, cfg programs.Config) *opened {
	t.Helper()
	d, err := openOnce(t, cfg)
	if err != nil {
		t.Fatalf("open datapath: %v", err)
	}
	takeDown(t, d)
	return d
}

// openOnce opens a datapath that somebody else takes down.
func openOnce(t *testing.T, cfg programs.Config) (*opened, error) {
	loaded, err := programs.Load(cfg)
	if err != nil {
		return nil, err
	}
	d, err := Open(loaded, testLog(t))
	if err != nil {
		return nil, err
	}
	return &opened{d, loaded.Objects, loaded.Config}, nil
}

// takeDown ends a datapath with the test, in the namespace that it is opened in.
func takeDown(t *testing.T, d *opened) {
	t.Helper()
	ns, err := netns.Get()
	Must(t, err)
	t.Cleanup(func() {
		defer ns.Close()
		d.Close()
		in(t, ns, func() {
			if err := Uninstall(d.cfg.PinDir, d.cfg.CgroupRoot); err != nil {
				t.Errorf("uninstall datapath: %v", err)
			}
		})
	})
}

// counts returns all counters as "direction/reason" -> packets.
func counts(t *testing.T, d *opened) map[string]uint64 {
	t.Helper()
	counters, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%s/%s", c.Direction, c.Reason)] = c.Packets
	}
	return m
}

// countedTwice returns the drops of all devices and VPCs, as counts does.
func countedTwice(t *testing.T, d *opened) map[string]uint64 {
	t.Helper()
	counters, err := d.DropCounters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%s/%s", c.Direction, c.Reason)] += c.Packets
	}
	return m
}

// onlyDrops leaves out what went on.
func onlyDrops(counted map[string]uint64) map[string]uint64 {
	drops := map[string]uint64{}
	for reason := range telemetry.Reason(bpf.AliothReasonREASON_LEN) {
		for direction := range telemetry.Direction(bpf.AliothDirectionDIRECTION_LEN) {
			name := fmt.Sprintf("%s/%s", direction, reason)
			if n, ok := counted[name]; ok && reason.Drop() {
				drops[name] = n
			}
		}
	}
	return drops
}

// added returns what a counted step has added.
func added(before, after map[string]uint64) map[string]uint64 {
	diff := map[string]uint64{}
	for k, n := range after {
		if n != before[k] {
			diff[k] = n - before[k]
		}
	}
	return diff
}

// socketLinkCount is how many links are at the cgroup root; the others are on four devices.
func socketLinkCount() int { return len(hook.LinkNames()) - 4 }
