// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

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
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Place is a program as it sees frames.
type Place struct {
	kind    int
	Program *ebpf.Program
	Device  int
	VNI     uint32 // behind the tunnel: of the key
	sent    bool   // while the other end of a netkit pair sends them
}

// Rules hold for every frame, whatever it is: they know the state, and nothing
// of how the programs decide.
type Rules struct {
	W      *world.World
	state  state.State
	Places [world.Kinds][]Place
	Owner  map[int]state.Interface // by device
	flows  *world.Events
	last   []uint64
	tried  uint64
	Seen   map[string]int
}

// New makes a world with all kinds of interfaces, and the rules that hold in it.
func New(t testing.TB) *Rules {
	t.Helper()
	// The programs see the frames that the test gives them, and no clone of a frame.
	elsewhere := func(cfg *programs.Config) {
		cfg.FragmentPeerIfindex = bpftest.AddPair(t, "elsewhere", "elsewhere-peer")
		cfg.ConnectionsPerInterface = 1000
	}
	w := world.New(t, world.OnUnderlay(t), elsewhere)
	s := w.ScaledState()
	s.Services = append(s.Services, world.Leading(world.VNIOpen, world.Outside, world.Outside6)...)
	// Each interface has a MAC of its own, so that a frame's destination is unambiguous.
	for i := range s.Interfaces {
		s.Interfaces[i].MAC[4] = byte(i + 1)
		s.Interfaces[i].Gateway4, s.Interfaces[i].Gateway6 = wire.IP("10.0.1.1"), wire.IP("fd10:0:0:1::1")
		s.Interfaces[i].Identity, s.Interfaces[i].SendsIdentity = 0x1a2b00+uint32(i), i%2 == 0
	}
	for i, a := range s.Addresses {
		for _, owner := range s.Interfaces {
			if a.Kind == state.Local && a.Ifindex == owner.Ifindex {
				s.Addresses[i].MAC = owner.MAC
			}
		}
	}
	s.Addresses = append(
		s.Addresses,
		state.Address{
			VNI:  world.VNIRed,
			IP:   wire.IP("fd10:0:0:1::21"),
			Kind: state.Remote,
			Node: wire.IP("192.0.2.2"),
			MAC:  world.MacR,
		},
		state.Address{
			VNI:  world.VNIRed,
			IP:   wire.IP("10.0.1.21"),
			Kind: state.Remote,
			Node: wire.IP("2001:db8::2"),
			MAC:  world.MacR,
		},
	)
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1350)
	r := &Rules{W: w, state: s, Owner: map[int]state.Interface{}, flows: w.WatchFlows(t), Seen: map[string]int{}}
	r.Places[world.KindPod] = []Place{{kind: world.KindPod, Program: w.Objects.AliothFromPod, Device: 1}}
	for _, i := range s.Interfaces {
		r.Owner[i.Ifindex] = i
		r.Places[world.KindPod] = append(
			r.Places[world.KindPod],
			Place{kind: world.KindPod, Program: w.Objects.AliothFromPod, Device: i.Ifindex},
		)
		if !i.Node {
			r.Places[world.KindPod] = append(
				r.Places[world.KindPod],
				Place{kind: world.KindPod, Program: w.Objects.AliothFromPod, Device: i.Ifindex, sent: true},
			)
		}
		r.Places[world.KindStack] = append(
			r.Places[world.KindStack],
			Place{kind: world.KindStack, Program: w.Objects.AliothToPod, Device: i.Ifindex},
		)
	}
	for _, key := range []struct {
		vni  uint32
		node string
	}{
		{world.VNIRed, "192.0.2.2"},
		{world.VNIRed, "2001:db8::2"},
		{world.VNIBlue, "192.0.2.2"},
		{world.VNIMain, "192.0.2.2"},
		{world.VNIRed, "192.0.2.66"},
		{999, "192.0.2.2"},
	} {
		p := world.Tunnelled(t, w, key.vni, wire.IP(key.node))
		r.Places[world.KindTunnel] = append(
			r.Places[world.KindTunnel],
			Place{kind: world.KindTunnel, Program: p, Device: w.Config.VXLANIfindex, VNI: key.vni},
		)
	}
	r.Places[world.KindUnderlay] = []Place{
		{kind: world.KindUnderlay, Program: w.Objects.AliothFromUnderlay, Device: w.Config.UnderlayIfindex},
	}
	for _, vni := range []uint32{world.VNIRed, world.VNIBlue, 999} {
		p := Place{
			kind:    world.KindFragment,
			Program: w.Objects.AliothFragment,
			Device:  w.Config.FragmentPeerIfindex,
			VNI:     vni,
		}
		r.Places[world.KindFragment] = append(r.Places[world.KindFragment], p)
	}
	r.last = r.counters(t)
	return r
}

// Addrs returns all addresses that mean something in the world.
func (r *Rules) Addrs() []netip.Addr {
	list := []netip.Addr{
		wire.IP(
			world.NodeShadow,
		), wire.IP(world.NodeShadow6), wire.IP(world.Outside), wire.IP(world.Outside6), wire.IP("10.96.0.10"), wire.IP("10.96.0.1"), wire.IP("fd96::10"),
		wire.IP("10.0.1.1"), wire.IP("fd10:0:0:1::1"),
		wire.IP(
			"224.0.0.1",
		), wire.IP("ff02::1"), wire.IP("255.255.255.255"), wire.IP("0.0.0.0"), wire.IP("::"), wire.IP("203.0.113.5"), wire.IP("127.0.0.1"), wire.IP("::1"),
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

// Macs returns all Ethernet addresses that mean something in the world.
func (r *Rules) Macs() []state.MAC {
	list := []state.MAC{
		state.VirtualMAC, world.Bcast, world.MacR, world.MacUplink,
		world.ClassDirect, world.ClassReturned, world.ClassToDivider, world.ClassToBouncer, world.ClassFromBouncer,
	}
	for class := range uint8(6) {
		list = append(list, world.IdentitySource(4711, 0, class), world.IdentitySource(0xabcdef, world.Unjudged, class))
	}
	for _, i := range r.state.Interfaces {
		list = append(list, i.MAC)
	}
	return list
}

// Try runs a frame and fails the test if it breaks a rule.
func (r *Rules) Try(t testing.TB, at Place, in []byte, ctx bpf.Context) {
	t.Helper()
	ctx.Ifindex = uint32(at.Device)
	if !at.sent {
		ctx.IngressIfindex = ctx.Ifindex
	}
	verdict, out, end := world.RunContext(t, at.Program, in, ctx)
	c, none, err := r.counted(t)
	if err == nil {
		err = r.verdict(at, verdict, c, none)
	}
	if err == nil && !none {
		r.tried++
		r.Seen[c.Direction.String()+"/"+c.Reason.String()]++
		err = r.packet(at, c.Reason, view(in), view(out), ctx.Mark, end.Mark)
	}
	for _, message := range r.flows.Told(t) {
		err = errors.Join(err, r.Told(at, c, message))
		r.Seen["told"]++
	}
	if err != nil {
		t.Errorf(
			"program %d on device %d, VNI %d: %v\nreason %s, verdict %d, mark %#x to %#x, segments of %d\nin:  %x\nout: %x",
			at.kind,
			at.Device,
			at.VNI,
			err,
			c.Reason,
			int32(verdict),
			ctx.Mark,
			end.Mark,
			ctx.GSOSize,
			in,
			out,
		)
	}
}

// Told checks a reported flow: its frame went on, under the name of its sender only.
func (r *Rules) Told(at Place, c telemetry.Counter, e telemetry.Event) error {
	owner := r.Owner[at.Device]
	switch {
	case e.Reason != c.Reason || e.Direction != c.Direction || e.Ifindex != at.Device || e.Reason.Drop():
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

var directions = [world.Kinds]telemetry.Direction{
	telemetry.FromPod,
	telemetry.ToPod,
	telemetry.FromTunnel,
	telemetry.FromTunnel,
	telemetry.ToTunnel,
}

// verdict compares the returned verdict with the counter, and with the verdicts that the program
// may return at all.
func (r *Rules) verdict(at Place, verdict uint32, c telemetry.Counter, none bool) error {
	if none {
		if at.kind == world.KindUnderlay && verdict == world.ActNext {
			return nil
		}
		return fmt.Errorf("nothing is counted")
	}
	want := uint32(world.ActRedirect)
	switch c.Reason.String() {
	case "to_stack", "from_stack":
		want = world.ActOK
	case "forwarded_local", "forwarded_remote", "returned", "replied", "replied_too_big", "replied_refused":
	default:
		want = world.ActShot
		if !c.Reason.Drop() {
			return fmt.Errorf("a frame can't end so")
		}
	}
	allowed := map[int][]string{
		world.KindPod: {"forwarded_local", "forwarded_remote", "replied", "replied_too_big", "replied_refused", "to_stack"},
		world.KindStack: {
			"from_stack",
		}, world.KindTunnel: {"forwarded_local", "returned"}, world.KindUnderlay: {"forwarded_local", "returned"},
		world.KindFragment: {"forwarded_remote"},
	}
	switch {
	case verdict != want:
		return fmt.Errorf("the verdict is not that of the reason")
	case c.Direction != directions[at.kind]:
		return fmt.Errorf("counted as %s", c.Direction)
	case want != world.ActShot && !slices.Contains(allowed[at.kind], c.Reason.String()):
		return fmt.Errorf("not for this program")
	}
	return nil
}

// packet checks the resulting packet.
func (r *Rules) packet(at Place, reason telemetry.Reason, in, out seen, before, mark uint32) error {
	if at.kind == world.KindFragment && reason == telemetry.ForwardedRemote {
		return r.Fragment(at, in.all, out.all, before, mark)
	}
	switch reason.String() {
	case "forwarded_local":
		return r.local(at, in, out, mark)
	case "forwarded_remote":
		return r.remote(at, in, out, mark)
	case "returned":
		return r.returned(at, in, out, mark)
	case "replied", "replied_too_big", "replied_refused":
		return r.reply(at, in, out, mark)
	case "to_stack":
		return r.leaving(at, in, out, mark)
	case "from_stack":
		return r.entering(at, in, out)
	case "rewrite_failed":
		return nil
	case "too_big":
		if at.kind == world.KindFragment {
			return nil // a fragment may find no way once it is made
		}
	}
	if at.kind != world.KindUnderlay && !bytes.Equal(in.all, out.all) && !r.translatedFirst(at, in) {
		return fmt.Errorf("a dropped frame was written to")
	}
	return nil
}

// translatedFirst reports whether a frame of a pod's is translated before its way is
// looked for, which it may not find.
func (r *Rules) translatedFirst(at Place, in seen) bool {
	from := r.Owner[at.Device]
	return at.kind == world.KindPod &&
		(in.dst == gatewayOf(from, in.dst) || slices.ContainsFunc(r.state.Services, func(s state.Service) bool {
			return s.VNI == from.VNI && s.VIP == in.dst
		}))
}

func has(i state.Interface, a netip.Addr) bool { return a.IsValid() && slices.Contains(i.Addrs, a) }

// local: the frame goes to the interface of the same VPC that has the address. Only its Ethernet
// addresses, and the fields that services translate, are changed.
func (r *Rules) local(at Place, in, out seen, mark uint32) error {
	vni, in, err := r.arrived(at, in)
	switch {
	case err != nil:
		return err
	case at.kind != world.KindPod && world.ClassOf(in.ethSrc) == world.ClassOfReturned:
		return fmt.Errorf("a returned frame is delivered")
	}
	if err := r.kept(vni, in, out); err != nil {
		return err
	}
	for _, i := range r.state.Interfaces {
		if i.MAC == out.ethDst && i.VNI == vni && has(i, out.dst) && out.ethSrc == state.VirtualMAC &&
			at.delivers(mark, i.Node) {
			return nil
		}
	}
	return fmt.Errorf("no interface of VNI %d is what the frame is for", vni)
}

func (r *Rules) remote(at Place, in, out seen, mark uint32) error {
	from := r.Owner[at.Device]
	if !has(from, in.src) || in.ethSrc != from.MAC {
		return fmt.Errorf("the source is not the pod's own")
	}
	if mark&state.MarkMask != 0 || mark == uint32(bpf.AliothMarkMARK_DELIVERED) {
		return fmt.Errorf("the frame keeps its mark")
	}
	inner := out
	if len(out.all) == len(in.all)+50 {
		// The Ethernet header in front belongs to the device that sends the packet on.
		out = view(slices.Concat(out.all[:12], []byte{8, 0}, out.all[14:]))
		own := out.src == r.W.Config.TunnelSource4 && slices.Contains(r.state.Nodes, out.dst)
		port := binary.BigEndian.Uint16(out.all[36:])
		if vni := binary.BigEndian.Uint32(out.all[46:]) >> 8; !own || !out.sound || vni != from.VNI ||
			port != programs.DefaultTunnelPort {
			return fmt.Errorf("outer headers from %s to %s, VNI %d, port %d", out.src, out.dst, vni, port)
		}
		inner = view(out.all[50:])
	}
	if err := r.kept(from.VNI, in, inner); err != nil || inner.ethSrc != world.SourceOf(from, world.ClassOfDirect) {
		return fmt.Errorf("the inner frame is sent by %s: %w", inner.ethSrc, err)
	}
	for _, a := range r.state.Addresses {
		if a.VNI == from.VNI && a.Kind == state.Remote && a.IP == inner.dst && a.MAC == inner.ethDst {
			return nil
		}
	}
	return fmt.Errorf("no other node has the address in VNI %d", from.VNI)
}

// arrived returns the VNI of a frame, and the part that the program decides about: behind the
// outer headers, if it has any.
func (r *Rules) arrived(at Place, in seen) (vni uint32, inner seen, err error) {
	switch at.kind {
	case world.KindPod:
		from := r.Owner[at.Device]
		if !has(from, in.src) || in.ethSrc != from.MAC {
			err = fmt.Errorf("the source is not the pod's own")
		}
		return from.VNI, in, err
	case world.KindUnderlay:
		if !slices.Contains(r.state.Nodes, in.src) {
			err = fmt.Errorf("the node is not known")
		}
		return binary.BigEndian.Uint32(in.all[46:]) >> 8, view(in.all[50:]), err
	}
	return at.VNI, in, nil
}

// returned: the frame is as it came but for its class. No node has returned it or sent it to a role
// before, and no pod here is an end of it.
func (r *Rules) returned(at Place, in, out seen, mark uint32) error {
	vni, in, err := r.arrived(at, in)
	switch {
	case err != nil:
		return err
	case out.ethSrc != world.WithClass(in.ethSrc, world.ClassOfReturned) || out.ethDst != in.ethDst ||
		!bytes.Equal(in.all[12:], out.all[12:]):
		return fmt.Errorf("the frame is changed")
	case world.ClassOf(in.ethSrc) != world.ClassOfDirect:
		return fmt.Errorf("a frame of class %s is returned", in.ethSrc)
	case mark&state.MarkMask != 0:
		return fmt.Errorf("the frame keeps its mark")
	}
	for _, a := range r.state.Addresses {
		if a.VNI == vni && a.Kind == state.Local && (a.IP == in.src || a.IP == in.dst) {
			return fmt.Errorf("%s is here", a.IP)
		}
	}
	return nil
}

// delivers reports whether a packet for an interface has the mark that it has to
// have.
func (at Place) delivers(mark uint32, toNode bool) bool {
	if at.sent && !toNode {
		return mark == uint32(bpf.AliothMarkMARK_DELIVERED)
	}
	return mark&state.MarkMask == 0 && mark != uint32(bpf.AliothMarkMARK_DELIVERED)
}

// reply: back to the pod alone, and sound.
func (r *Rules) reply(at Place, in, out seen, mark uint32) error {
	from := r.Owner[at.Device]
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
