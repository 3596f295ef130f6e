// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// hostEnd returns the name of the host end of a pod's interface.
func (p *labPod) hostEnd() string { return (&pair.Driver{}).HostName("sandbox-"+p.name, "eth0") }

// repairs returns the number of the daemon's repairs of a kind.
func (m *machine) repairs(t *testing.T, kind string) int {
	t.Helper()
	prefix := fmt.Sprintf("alioth_cnid_repairs_total{kind=%q} ", kind)
	for line := range strings.Lines(m.get(t, "/metrics")) {
		if number, found := strings.CutPrefix(line, prefix); found {
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", prefix)
	return 0
}

// works returns nil when all ways through the first node work: inside of it, to and from the other
// node, a probe, and the node itself.
func (l *lab) works(t *testing.T) error {
	t.Helper()
	var failures []error
	for _, way := range []struct {
		from string
		to   string
	}{{"b1", "b2"}, {"b1", "b3"}, {"b3", "b1"}, {"r1", "r3"}} {
		failures = append(failures, l.reaches(t, l.pods[way.from], l.pods[way.to]))
	}
	if _, err := l.nodes[0].probe(t, "10.10.1.10:80"); err != nil {
		failures = append(failures, fmt.Errorf("probe: %w", err))
	}
	conn, got, err := dialFrom(t, l.nodes[0].NetNS, l.pods["d1"].ip(ipfamily.IPv4))
	if conn != nil {
		conn.Close()
	}
	if err != nil || got != "d1" {
		failures = append(failures, fmt.Errorf("node to d1: %q, %w", got, err))
	}
	return errors.Join(failures...)
}

func (l *lab) reaches(t *testing.T, from, to *labPod) error {
	t.Helper()
	conn, got, err := dialFrom(t, from.NetNS, to.ip(ipfamily.IPv4))
	if conn != nil {
		conn.Close()
	}
	if err != nil || got != to.name {
		return fmt.Errorf("%s to %s: %q, %w", from.name, to.name, got, err)
	}
	return nil
}

// harm is something done to a node by hand, and the kind of repair it needs.
type harm struct {
	name string
	do   func() error
	kind string
}

// noticed returns damage that the kernel reports.
func noticed(p *labPod) []harm {
	return []harm{
		{"a pod's route is deleted", func() error {
			index, err := net.InterfaceByName(p.hostEnd())
			if err != nil {
				return err
			}
			routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: index.Index}, netlink.RT_FILTER_OIF)
			if err != nil {
				return err
			}
			return netlink.RouteDel(&routes[0])
		}, netdev.RepairRoute},
		{"a pod's programs are removed", func() error {
			qdisc, err := clsactOf(p.hostEnd())
			if err != nil {
				return err
			}
			return netlink.QdiscDel(qdisc)
		}, datapath.RepairProgram},
		{"a pod's host end is set down", netnstest.OnLink(p.hostEnd(), netlink.LinkSetDown), netdev.RepairDevice},
		{"a pod's host end gets another MTU", netnstest.OnLink(p.hostEnd(), func(link netlink.Link) error {
			return netlink.LinkSetMTU(link, 600)
		}), netdev.RepairDevice},
		{"a pod's host end is deleted", netnstest.OnLink(p.hostEnd(), netlink.LinkDel), finding.RepairInterface},
		{"the tunnel device is deleted", netnstest.OnLink(hostdev.Tunnel, netlink.LinkDel), netdev.RepairDevice},
		{"the tunnel device is set down", netnstest.OnLink(hostdev.Tunnel, netlink.LinkSetDown), netdev.RepairDevice},
		{"the node's own device is deleted", netnstest.OnLink(hostdev.Node, netlink.LinkDel), netdev.RepairDevice},
		{"the node's shadow address is deleted", netnstest.OnLink("lo", func(link netlink.Link) error {
			return netlink.AddrDel(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IP{169, 254, 64, 1}, Mask: net.CIDRMask(32, 32)}})
		}), netdev.RepairAddress},
		{"the packet filter's table is deleted", netfilter.Remove, finding.RepairFilter},
	}
}

// unnoticed returns harm that only a look finds.
func unnoticed(m *machine) []harm {
	pin := func(name string) string { return filepath.Join(m.cfg.BPFDir, name) }
	return []harm{
		{"forwarding is turned off", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o644) }, netdev.RepairSetting},
		{"the pin of the tunnel's link is removed", func() error { return os.Remove(pin("links/from_tunnel")) }, datapath.RepairLink},
		{"the pin of the uplink's link is removed", func() error { return os.Remove(pin("links/from_underlay")) }, datapath.RepairLink},
		{"the pin of the sockets' link is removed", func() error { return os.Remove(pin("links/connect4")) }, datapath.RepairLink},
		{"the pin of a map is removed", func() error { return os.Remove(pin("alioth_addresses")) }, datapath.RepairPin},
		{"all pins are removed", func() error {
			// The daemon may pin again before the last one is removed.
			if err := os.RemoveAll(m.cfg.BPFDir); !errors.Is(err, unix.ENOTEMPTY) {
				return err
			}
			return nil
		}, datapath.RepairPin},
		{"a map is emptied", func() error {
			addresses, err := ebpf.LoadPinnedMap(pin("alioth_addresses"), nil)
			if err != nil {
				return err
			}
			defer addresses.Close()
			for {
				key, err := addresses.NextKeyBytes(nil)
				if err != nil || key == nil {
					return err
				}
				if err := addresses.Delete(key); err != nil {
					return err
				}
			}
		}, datapath.RepairMap},
	}
}

func (l *lab) survives(t *testing.T, h harm) {
	t.Helper()
	m := l.nodes[0]
	if err := l.works(t); err != nil {
		t.Fatalf("before: %v", err)
	}
	before := m.repairs(t, h.kind)
	testnet.In(t, m.NetNS, h.do)
	eventually(t, "the repair is counted", func() error {
		if m.repairs(t, h.kind) == before {
			return fmt.Errorf("no repair of kind %s", h.kind)
		}
		return nil
	})
	eventually(t, "everything works again", func() error { return l.works(t) })
}

func TestRepair_KernelEvent_BeforeNextRecheck(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t) // rechecks come every 30 s, and a test waits for less
	for _, h := range noticed(l.pods["b1"]) {
		t.Run(h.name, func(t *testing.T) { l.survives(t, h) })
	}
}

func TestRepair_NoEvent_ByRecheck(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nodes[0].cfg.RecheckEvery = 100 * time.Millisecond
	l.start(t)
	for _, h := range unnoticed(l.nodes[0]) {
		t.Run(h.name, func(t *testing.T) { l.survives(t, h) })
	}
}

func TestConnection_PodInterfaceLost_SurvivesRestore(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	conn, _, err := dialFrom(t, l.pods["b1"].NetNS, l.pods["b3"].ip(ipfamily.IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testnet.In(t, l.nodes[0].NetNS, netnstest.OnLink(l.pods["b1"].hostEnd(), netlink.LinkDel))
	eventually(t, "the interface is made anew", func() error { return l.reaches(t, l.pods["b1"], l.pods["b3"]) })
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("hello"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
	if err := l.cni(t, "DEL", l.pods["b1"]); err != nil {
		t.Error(err)
	}
	testnet.In(t, l.nodes[0].NetNS, func() error {
		if _, err := netlink.LinkByName(l.pods["b1"].hostEnd()); err == nil {
			t.Error("the host end outlived DEL")
		}
		return nil
	})
}
