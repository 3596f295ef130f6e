// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// place is a program as it sees frames.
type place struct {
	kind    int
	program *ebpf.Program
	device  int
	vni     uint32 // behind the tunnel: of the key
	sent    bool   // while the other end of a netkit pair sends them
}

// rules hold for every frame, whatever it is: they know the state, and nothing
// of how the programs decide.
type rules struct {
	w      *world
	state  state.State
	places [kinds][]place
	owner  map[int]state.Interface // by device
	flows  *events
	last   []uint64
	tried  uint64
	seen   map[string]int
}

func newRules(t *testing.T) *rules {
	t.Helper()
	// The programs see the frames that the test gives them, and no clone of one.
	elsewhere := func(cfg *programs.Config) {
		cfg.FragmentPeerIfindex = addPair(t, "elsewhere", "elsewhere-peer")
		cfg.ConnectionsPerInterface = 1000
	}
	w := newWorld(t, onUnderlay(t), elsewhere)
	s := w.scaledState()
	s.Services = append(s.Services, leading(vniOpen, outside, outside6)...)
	// A MAC of its own for each interface tells to which one a frame goes.
	for i := range s.Interfaces {
		s.Interfaces[i].MAC[4] = byte(i + 1)
		s.Interfaces[i].Gateway4, s.Interfaces[i].Gateway6 = Ip("10.0.1.1"), Ip("fd10:0:0:1::1")
	}
	for i, a := range s.Addresses {
		for _, owner := range s.Interfaces {
			if a.Kind == state.Local && a.Ifindex == owner.Ifindex {
				s.Addresses[i].MAC = owner.MAC
			}
		}
	}
	s.Addresses = append(s.Addresses,
		state.Address{VNI: vniRed, IP: Ip("fd10:0:0:1::21"), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR},
		state.Address{VNI: vniRed, IP: Ip("10.0.1.21"), Kind: state.Remote, Node: Ip("2001:db8::2"), MAC: macR})
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	setMTU(t, w.cfg.UnderlayIfindex, 1350)
	r := &rules{w: w, state: s, owner: map[int]state.Interface{}, flows: w.watchFlows(t), seen: map[string]int{}}
	r.places[kindPod] = []place{{kind: kindPod, program: w.objects.AliothFromPod, device: 1}}
	for _, i := range s.Interfaces {
		r.owner[i.Ifindex] = i
		r.places[kindPod] = append(r.places[kindPod], place{kind: kindPod, program: w.objects.AliothFromPod, device: i.Ifindex})
		if !i.Node {
			r.places[kindPod] = append(r.places[kindPod], place{kind: kindPod, program: w.objects.AliothFromPod, device: i.Ifindex, sent: true})
		}
		r.places[kindStack] = append(r.places[kindStack], place{kind: kindStack, program: w.objects.AliothToPod, device: i.Ifindex})
	}
	for _, key := range []struct {
		vni  uint32
		node string
	}{
		{vniRed, "192.0.2.2"},
		{vniRed, "2001:db8::2"},
		{vniBlue, "192.0.2.2"},
		{vniMain, "192.0.2.2"},
		{vniRed, "192.0.2.66"},
		{999, "192.0.2.2"},
	} {
		p := tunnelled(t, w, key.vni, Ip(key.node))
		r.places[kindTunnel] = append(r.places[kindTunnel], place{kind: kindTunnel, program: p, device: w.cfg.VXLANIfindex, vni: key.vni})
	}
	r.places[kindUnderlay] = []place{{kind: kindUnderlay, program: w.objects.AliothFromUnderlay, device: w.cfg.UnderlayIfindex}}
	for _, vni := range []uint32{vniRed, vniBlue, 999} {
		p := place{kind: kindFragment, program: w.objects.AliothFragment, device: w.cfg.FragmentPeerIfindex, vni: vni}
		r.places[kindFragment] = append(r.places[kindFragment], p)
	}
	r.last = r.counters(t)
	return r
}

func (r *rules) addrs() []netip.Addr {
	list := []netip.Addr{
		Ip(nodeShadow), Ip(nodeShadow6), Ip(outside), Ip(outside6), Ip("10.96.0.10"), Ip("10.96.0.1"), Ip("fd96::10"),
		Ip("10.0.1.1"), Ip("fd10:0:0:1::1"),
		Ip("224.0.0.1"), Ip("ff02::1"), Ip("255.255.255.255"), Ip("0.0.0.0"), Ip("::"), Ip("203.0.113.5"), Ip("127.0.0.1"), Ip("::1"),
	}
	for _, a := range r.state.Addresses {
		list = append(list, a.IP)
	}
	for _, s := range r.state.Services {
		list = append(list, s.VIP)
	}
	for _, i := range r.state.Interfaces {
		for _, shadow := range []netip.Addr{i.Shadow4, i.Shadow6} {
			if shadow.IsValid() {
				list = append(list, shadow)
			}
		}
	}
	return append(list, r.state.Nodes...)
}

func (r *rules) macs() []state.MAC {
	list := []state.MAC{state.VirtualMAC, Bcast, macR, macUplink}
	for _, i := range r.state.Interfaces {
		list = append(list, i.MAC)
	}
	return list
}

// counters reads all counts by their index, in one call for the sake of speed.
func (r *rules) counters(t *testing.T) []uint64 {
	t.Helper()
	m, cpus := r.w.objects.AliothCounters, ebpf.MustPossibleCPU()
	keys, values := make([]uint32, m.MaxEntries()), make([]bpf.AliothCounter, int(m.MaxEntries())*cpus)
	var cursor ebpf.MapBatchCursor
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if n != len(keys) {
		t.Fatalf("read %d of %d counters: %v", n, len(keys), err)
	}
	counts := make([]uint64, n)
	for i, v := range values {
		counts[keys[i/cpus]] += v.Packets
	}
	return counts
}

// counted returns the one counter that has moved since the last call. none says
// that there is none.
func (r *rules) counted(t *testing.T) (found telemetry.Counter, none bool, err error) {
	now := r.counters(t)
	defer func() { r.last = now }()
	none = true
	for index, n := range now {
		if n == r.last[index] {
			continue
		}
		if n != r.last[index]+1 || !none {
			return found, false, fmt.Errorf("the counter %d has moved from %d to %d, and more than one may have", index, r.last[index], n)
		}
		found.Reason = telemetry.Reason(index / int(bpf.AliothDirectionDIRECTION_LEN))
		found.Direction = telemetry.Direction(index % int(bpf.AliothDirectionDIRECTION_LEN))
		none = false
	}
	return found, none, nil
}

// checkSum checks that every frame that was decided has one count.
func (r *rules) checkSum(t *testing.T) {
	t.Helper()
	var sum uint64
	for _, n := range r.counters(t) {
		sum += n
	}
	if sum != r.tried {
		t.Errorf("%d frames were decided and %d counted", r.tried, sum)
	}
}

// try runs a frame and fails the test if it breaks a rule.
func (r *rules) try(t *testing.T, at place, in []byte, ctx bpf.Context) {
	t.Helper()
	ctx.Ifindex = uint32(at.device)
	if !at.sent {
		ctx.IngressIfindex = ctx.Ifindex
	}
	verdict, out, end := runContext(t, at.program, in, ctx)
	c, none, err := r.counted(t)
	if err == nil {
		err = r.verdict(at, verdict, c, none)
	}
	if err == nil && !none {
		r.tried++
		r.seen[c.Direction.String()+"/"+c.Reason.String()]++
		err = r.packet(at, c.Reason, view(in), view(out), ctx.Mark, end.Mark)
	}
	for _, told := range r.flows.told(t) {
		err = errors.Join(err, r.told(at, c, told))
		r.seen["told"]++
	}
	if err != nil {
		t.Errorf("program %d on device %d, VNI %d: %v\nreason %s, verdict %d, mark %#x to %#x, segments of %d\nin:  %x\nout: %x",
			at.kind, at.device, at.vni, err, c.Reason, int32(verdict), ctx.Mark, end.Mark, ctx.GSOSize, in, out)
	}
}

// told: of a frame that went on, and under nobody's name but its sender's.
func (r *rules) told(at place, c telemetry.Counter, e telemetry.Event) error {
	owner := r.owner[at.device]
	switch {
	case e.Reason != c.Reason || e.Direction != c.Direction || e.Ifindex != at.device || e.Reason.Drop():
		return fmt.Errorf("told as %s, %s on device %d", e.Direction, e.Reason, e.Ifindex)
	case e.Direction == telemetry.FromPod && (e.VNI != owner.VNI || !has(owner, e.Came.Src)):
		return fmt.Errorf("told as one of %s in VNI %d", e.Came.Src, e.VNI)
	case e.Direction == telemetry.ToPod && (e.VNI != owner.VNI || !has(owner, e.Went.Dst)):
		return fmt.Errorf("told as one to %s in VNI %d", e.Went.Dst, e.VNI)
	case e.Direction == telemetry.FromTunnel && !slices.Contains(r.state.Nodes, e.OuterSrc):
		return fmt.Errorf("told as one from %s", e.OuterSrc)
	}
	return nil
}

var directions = [kinds]telemetry.Direction{telemetry.FromPod, telemetry.ToPod, telemetry.FromTunnel, telemetry.FromTunnel, telemetry.ToTunnel}

// verdict checks that what is returned is what is counted, and what the program
// may return at all.
func (r *rules) verdict(at place, verdict uint32, c telemetry.Counter, none bool) error {
	if none {
		if at.kind == kindUnderlay && verdict == actNext {
			return nil
		}
		return fmt.Errorf("nothing is counted")
	}
	want := uint32(actRedirect)
	switch c.Reason.String() {
	case "to_stack", "from_stack":
		want = actOK
	case "forwarded_local", "forwarded_remote", "replied", "replied_too_big", "replied_refused":
	default:
		want = actShot
		if !c.Reason.Drop() {
			return fmt.Errorf("a frame can't end so")
		}
	}
	allowed := map[int][]string{
		kindPod:   {"forwarded_local", "forwarded_remote", "replied", "replied_too_big", "replied_refused", "to_stack"},
		kindStack: {"from_stack"}, kindTunnel: {"forwarded_local"}, kindUnderlay: {"forwarded_local"},
		kindFragment: {"forwarded_remote"},
	}
	switch {
	case verdict != want:
		return fmt.Errorf("the verdict is not that of the reason")
	case c.Direction != directions[at.kind]:
		return fmt.Errorf("counted as %s", c.Direction)
	case want != actShot && !slices.Contains(allowed[at.kind], c.Reason.String()):
		return fmt.Errorf("not for this program")
	}
	return nil
}

// packet checks what came out.
func (r *rules) packet(at place, reason telemetry.Reason, in, out seen, before, mark uint32) error {
	if at.kind == kindFragment && reason == telemetry.ForwardedRemote {
		return r.fragment(at, in.all, out.all, before, mark)
	}
	switch reason.String() {
	case "forwarded_local":
		return r.local(at, in, out, mark)
	case "forwarded_remote":
		return r.remote(at, in, out, mark)
	case "replied", "replied_too_big", "replied_refused":
		return r.reply(at, in, out, mark)
	case "to_stack":
		return r.leaving(at, in, out, mark)
	case "from_stack":
		return r.entering(at, in, out)
	case "rewrite_failed":
		return nil
	case "too_big":
		if at.kind == kindFragment {
			return nil // a fragment may find no way once it is made
		}
	}
	if at.kind != kindUnderlay && !bytes.Equal(in.all, out.all) && !r.translatedFirst(at, in) {
		return fmt.Errorf("a dropped frame was written to")
	}
	return nil
}

// translatedFirst reports whether a frame of a pod's is translated before its way is
// looked for, which it may not find.
func (r *rules) translatedFirst(at place, in seen) bool {
	from := r.owner[at.device]
	return at.kind == kindPod && (in.dst == gatewayOf(from, in.dst) || slices.ContainsFunc(r.state.Services, func(s state.Service) bool {
		return s.VNI == from.VNI && s.VIP == in.dst
	}))
}

func has(i state.Interface, a netip.Addr) bool { return a.IsValid() && slices.Contains(i.Addrs, a) }

// local: the frame goes to the interface of the same VPC that has the address,
// and nothing is changed but its Ethernet addresses and what services translate.
func (r *rules) local(at place, in, out seen, mark uint32) error {
	vni := at.vni
	switch at.kind {
	case kindPod:
		from := r.owner[at.device]
		if vni = from.VNI; !has(from, in.src) || in.ethSrc != from.MAC {
			return fmt.Errorf("the source is not the pod's own")
		}
	case kindUnderlay:
		vni = binary.BigEndian.Uint32(in.all[46:]) >> 8
		if !slices.Contains(r.state.Nodes, in.src) {
			return fmt.Errorf("the node is not known")
		}
		in = view(in.all[50:])
	}
	if err := r.kept(vni, in, out); err != nil {
		return err
	}
	for _, i := range r.state.Interfaces {
		if i.MAC == out.ethDst && i.VNI == vni && has(i, out.dst) && out.ethSrc == state.VirtualMAC && at.delivers(mark, i.Node) {
			return nil
		}
	}
	return fmt.Errorf("no interface of VNI %d is what the frame is for", vni)
}

func (r *rules) remote(at place, in, out seen, mark uint32) error {
	from := r.owner[at.device]
	if !has(from, in.src) || in.ethSrc != from.MAC {
		return fmt.Errorf("the source is not the pod's own")
	}
	if mark&state.MarkMask != 0 || mark == uint32(bpf.AliothMarkMARK_DELIVERED) {
		return fmt.Errorf("the frame keeps its mark")
	}
	inner := out
	if len(out.all) == len(in.all)+50 {
		// The Ethernet header in front is that of whoever sends it on.
		out = view(slices.Concat(out.all[:12], []byte{8, 0}, out.all[14:]))
		own := out.src == r.w.cfg.TunnelSource4 && slices.Contains(r.state.Nodes, out.dst)
		port := binary.BigEndian.Uint16(out.all[36:])
		if vni := binary.BigEndian.Uint32(out.all[46:]) >> 8; !own || !out.sound || vni != from.VNI || port != programs.DefaultTunnelPort {
			return fmt.Errorf("outer headers from %s to %s, VNI %d, port %d", out.src, out.dst, vni, port)
		}
		inner = view(out.all[50:])
	}
	if err := r.kept(from.VNI, in, inner); err != nil || inner.ethSrc != from.MAC {
		return fmt.Errorf("the inner frame is sent by %s: %w", inner.ethSrc, err)
	}
	for _, a := range r.state.Addresses {
		if a.VNI == from.VNI && a.Kind == state.Remote && a.IP == inner.dst && a.MAC == inner.ethDst {
			return nil
		}
	}
	return fmt.Errorf("no other node has the address in VNI %d", from.VNI)
}

// delivers reports whether a packet for an interface has the mark that it has to
// have.
func (at place) delivers(mark uint32, toNode bool) bool {
	if at.sent && !toNode {
		return mark == uint32(bpf.AliothMarkMARK_DELIVERED)
	}
	return mark&state.MarkMask == 0 && mark != uint32(bpf.AliothMarkMARK_DELIVERED)
}

// reply: back to the pod alone, and sound.
func (r *rules) reply(at place, in, out seen, mark uint32) error {
	from := r.owner[at.device]
	if at.sent && !at.delivers(mark, from.Node) {
		return fmt.Errorf("the answer would not pass alioth_to_pod")
	}
	if in.ethSrc != from.MAC || out.ethDst != from.MAC || out.ethSrc != state.VirtualMAC {
		return fmt.Errorf("the answer is not for the pod")
	}
	if out.ethertype == 0x0806 {
		return nil
	}
	if !out.sound && in.sound || out.dst != in.src {
		return fmt.Errorf("the answer goes to %s", out.dst)
	}
	return nil
}

// seen is what a frame says of itself at first sight.
type seen struct {
	all            []byte
	ethDst, ethSrc state.MAC
	ethertype      uint16
	src, dst       netip.Addr
	proto          uint8
	dport          uint16 // without extension headers in between
	ports          bool   // dport is where ports are: this is no later fragment
	opens          bool   // TCP with SYN and without ACK
	sound          bool   // the IPv4 header's checksum is right, or there is none
}

func view(b []byte) seen {
	s := seen{all: b, sound: true}
	if len(b) < 14 {
		return s
	}
	s.ethDst, s.ethSrc, s.ethertype = state.MAC(b[0:6]), state.MAC(b[6:12]), binary.BigEndian.Uint16(b[12:])
	l4 := 54
	switch {
	case s.ethertype == 0x0800 && len(b) >= 34:
		s.src, s.dst, s.proto = netip.AddrFrom4([4]byte(b[26:30])), netip.AddrFrom4([4]byte(b[30:34])), b[23]
		l4 = 14 + int(b[14]&15)*4
		s.sound = l4 >= 34 && l4 <= len(b) && fold(sum(0, b[14:l4])) == 0
		if binary.BigEndian.Uint16(b[20:])&0x1fff != 0 {
			return s
		}
	case s.ethertype == 0x86dd && len(b) >= 54:
		s.src, s.dst, s.proto = netip.AddrFrom16([16]byte(b[22:38])), netip.AddrFrom16([16]byte(b[38:54])), b[20]
	default:
		return s
	}
	if len(b) >= l4+4 {
		s.ports = s.proto == state.ProtoTCP || s.proto == state.ProtoUDP
		s.dport = binary.BigEndian.Uint16(b[l4+2:])
	}
	if s.proto == state.ProtoTCP && len(b) > l4+13 {
		s.opens = b[l4+13]&(flagSYN|flagACK) == flagSYN
	}
	return s
}
