// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package forged_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// stack is a kernel's network stack in a namespace of its own. It receives the frames that a
// program has handed to the host. It reassembles fragments, tracks connections, and keeps a note
// of its reading of each packet.
type stack struct {
	ns  netns.NsHandle
	in  int       // the device that leads there
	fd  int       // a socket that sends by it
	mac state.MAC // of the device there
}

// reading is a stack's reading of a packet; without ports where its protocol has none.
type reading struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16
}

func (r reading) String() string {
	return fmt.Sprintf("protocol %d from %s port %d to %s port %d", r.proto, r.src, r.sport, r.dst, r.dport)
}

// notes are the rules that keep the notes, behind reassembly and connection tracking. A note of
// an error has the flow that connection tracking has found for it.
const notes = `table inet notes {
	set ports4 { typeof ip saddr . ip daddr . meta l4proto . th sport . th dport; flags dynamic; size 65535; }
	set ports6 { typeof ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport; flags dynamic; size 65535; }
	set others4 { typeof ip saddr . ip daddr . meta l4proto; flags dynamic; size 65535; }
	set others6 { typeof ip6 saddr . ip6 daddr . meta l4proto; flags dynamic; size 65535; }
	set errors4 { typeof ip saddr . ct original ip saddr . ct reply ip saddr; flags dynamic; size 65535; }
	set errors6 { typeof ip6 saddr . ct original ip6 saddr . ct reply ip6 saddr; flags dynamic; size 65535; }
	chain errors {
		meta nfproto ipv4 add @errors4 { ip saddr . ct original ip saddr . ct reply ip saddr }
		meta nfproto ipv6 add @errors6 { ip6 saddr . ct original ip6 saddr . ct reply ip6 saddr }
	}
	chain ports {
		meta nfproto ipv4 add @ports4 { ip saddr . ip daddr . meta l4proto . th sport . th dport }
		meta nfproto ipv6 add @ports6 { ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport }
	}
	chain read {
		type filter hook prerouting priority -150;
		iifname != "received" accept
		ether saddr 02:00:00:00:09:08 accept comment "what the kernel itself sends"
		ct state related jump errors
		meta l4proto { tcp, udp, sctp } jump ports
		meta l4proto { tcp, udp, sctp } accept
		meta nfproto ipv4 add @others4 { ip saddr . ip daddr . meta l4proto }
		meta nfproto ipv6 add @others6 { ip6 saddr . ip6 daddr . meta l4proto }
	}
}`

// newStack makes a stack that has the addresses.
func newStack(t *testing.T, addrs ...netip.Addr) *stack {
	t.Helper()
	s := &stack{ns: bpftest.NewNamespace(t), mac: state.MAC{2, 0, 0, 0, 9, 9}}
	bpftest.In(t, s.ns, func() {
		for path, value := range map[string]string{
			// The sums of a mutated frame are wrong, and must not hide other faults.
			"net/netfilter/nf_conntrack_checksum": "0", "net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
			"net/ipv6/conf/all/accept_ra": "0",
		} {
			bpftest.Must(t, os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0))
		}
		nft := exec.Command("nft", "-f", "-")
		nft.Stdin = strings.NewReader(notes)
		if out, err := nft.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v: %s", err, out)
		}
	})
	s.in, _ = bpftest.LinkTo(t, "handed", state.MAC{2, 0, 0, 0, 9, 8}, s.ns, "received", 9000)
	var err error
	s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	bpftest.Must(t, err)
	t.Cleanup(func() { unix.Close(s.fd) })
	bpftest.In(t, s.ns, func() {
		l, err := netlink.LinkByName("received")
		bpftest.Must(t, err)
		bpftest.Must(t, netlink.LinkSetMTU(l, 9000))
		bpftest.Must(t, netlink.LinkSetHardwareAddr(l, s.mac[:]))
		for _, a := range addrs {
			bpftest.AddAddr(t, 1, bpftest.Host(a))
		}
		for _, all := range []string{"0.0.0.0/0", "::/0"} {
			bpftest.AddRoute(t, &netlink.Route{LinkIndex: l.Attrs().Index, Dst: bpftest.IPNet(wire.Prefix(all)), Scope: unix.RT_SCOPE_LINK})
		}
	})
	return s
}

// receive hands it a frame.
func (s *stack) receive(t *testing.T, frame []byte) {
	t.Helper()
	copy(frame, s.mac[:])
	bpftest.Must(t, unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.in}))
}

// set returns the elements of a set, each of whose fields takes whole words.
func (s *stack) set(t *testing.T, name string) (keys [][]byte) {
	t.Helper()
	bpftest.In(t, s.ns, func() {
		set := &nftables.Set{Name: name, Table: &nftables.Table{Name: "notes", Family: nftables.TableFamilyINet}}
		elements, err := (&nftables.Conn{}).GetSetElements(set)
		bpftest.Must(t, err)
		for _, e := range elements {
			keys = append(keys, e.Key)
		}
	})
	return keys
}

// addrsOf takes count addresses off a key.
func addrsOf(key []byte, count, size int) (list []netip.Addr, rest []byte) {
	for range count {
		a, _ := netip.AddrFromSlice(key[:size])
		list, key = append(list, a), key[size:]
	}
	return list, key
}

// readings returns the stack's readings of the packets.
func (s *stack) readings(t *testing.T) (list []reading) {
	t.Helper()
	for name, size := range map[string]int{"ports4": 4, "others4": 4, "ports6": 16, "others6": 16} {
		for _, key := range s.set(t, name) {
			ends, rest := addrsOf(key, 2, size)
			r := reading{src: ends[0], dst: ends[1], proto: rest[0]}
			if strings.HasPrefix(name, "ports") {
				r.sport, r.dport = binary.BigEndian.Uint16(rest[4:]), binary.BigEndian.Uint16(rest[8:])
			}
			list = append(list, r)
		}
	}
	return list
}

// related returns for each error that was found to belong to a flow its sender and
// the two ends of that.
func (s *stack) related(t *testing.T) (list [][]netip.Addr) {
	t.Helper()
	for name, size := range map[string]int{"errors4": 4, "errors6": 16} {
		for _, key := range s.set(t, name) {
			ends, _ := addrsOf(key, 3, size)
			list = append(list, ends)
		}
	}
	return list
}

// TestStack_AcceptedForgedFrames_ReadAlike makes sequences of frames of pods, fragments most of
// them, that lie about their lengths and headers. It hands the frames that the program lets out
// to a stack. However the stack reassembles and reads them, protocol, ends and ports must equal
// the ones in a frame that the program has decided about. An error must belong to a flow of its
// sender. The test runs as long as TestPrograms_MutatedFrames_RulesHold, by the same settings.
func TestStack_AcceptedForgedFrames_ReadAlike(t *testing.T) {
	duration, seed := world.Mutations(t)
	duration = min(duration, 15*time.Second)
	w := world.New(t, func(cfg *programs.Config) { cfg.ConnectionsPerInterface = 4000 })
	behind := newStack(
		t,
		wire.IP(world.Outside),
		wire.IP(world.Outside6),
		wire.IP(world.NodeShadow),
		wire.IP(world.NodeShadow6),
		wire.IP("10.8.1.10"),
		wire.IP("fd18:0:0:1::10"),
		wire.IP("192.0.2.1"),
	)
	r := &receiving{w: w, behind: behind, flows: w.WatchFlows(t), accepted: map[reading]bool{}}
	m := &liar{Rand: rand.New(rand.NewPCG(seed, 1)), w: w}
	for _, frames := range knownLies(w) {
		r.send(t, frames)
	}
	var sequences int
	const most = 2000 // within which the stack has read enough; a slow machine takes longer for them
	for end := time.Now().Add(duration); (time.Now().Before(end) || sequences < most && !r.enough()) && !t.Failed(); sequences++ {
		r.send(t, m.sequence())
		if sequences%16 == 0 {
			r.check(t)
		}
	}
	r.check(t)
	t.Logf("%d sequences; accepted %d ways, of which %d were read; %d errors found their flows", sequences, len(r.accepted), len(r.seen), r.errors)
	if !r.enough() {
		t.Errorf("the stack has read %d packets and found flows of %d errors; put together: %t", len(r.seen), r.errors, r.reassembled)
	}
}

// enough reports whether the stack has read so much that the test means something.
func (r *receiving) enough() bool { return len(r.seen) >= 8 && r.errors > 0 && r.reassembled }

// sent is a frame of a device.
type sent struct {
	device int
	frame  []byte
}

// receiving compares the packets that the program has accepted with the stack's readings.
type receiving struct {
	w           *world.World
	behind      *stack
	flows       *world.Events
	accepted    map[reading]bool
	seen        map[reading]bool
	last        []sent
	errors      int
	reassembled bool
}

// send runs frames through the program, and hands on the frames that the program lets out.
func (r *receiving) send(t *testing.T, frames []sent) {
	t.Helper()
	for _, f := range frames {
		// The program then reports every frame.
		for _, m := range []string{"alioth_flow_gate", "alioth_flow_share"} {
			bpftest.Must(t, bpf.Empty(bpf.Pinnable(r.w.Objects)[m]))
		}
		verdict, out, _ := world.RunContext(t, r.w.Objects.AliothFromPod, world.Runnable(f.frame), bpf.Received(f.device))
		for _, e := range r.flows.Told(t) {
			// Without ports, later fragments too: those alone give nothing to be read.
			r.accepted[reading{e.Went.Src, e.Went.Dst, e.Proto, e.Went.Sport, e.Went.Dport}] = true
		}
		if verdict == world.ActOK {
			r.behind.receive(t, out)
		}
	}
	if r.last = append(r.last, frames...); len(r.last) > 200 {
		r.last = r.last[len(r.last)-200:]
	}
}

func (r *receiving) check(t *testing.T) {
	t.Helper()
	r.seen = map[reading]bool{}
	for _, read := range r.behind.readings(t) {
		r.seen[read] = true
		r.reassembled = r.reassembled || read.dport == wholePort
		if !r.accepted[read] {
			t.Errorf("the stack has read %s, which the program has not accepted", read)
		}
	}
	related := r.behind.related(t)
	for _, ends := range related {
		if ends[0] != ends[1] && ends[0] != ends[2] {
			t.Errorf("an error of %s belongs to a flow between %s and %s", ends[0], ends[1], ends[2])
		}
	}
	if r.errors = len(related); t.Failed() {
		for _, f := range r.last {
			t.Logf("device %d: %x", f.device, f.frame)
		}
	}
}
