// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// identify gives all interfaces of a world an identity, which their packets have or not.
func identify(t *testing.T, w *world.World, identity uint32, sent bool) {
	t.Helper()
	s := w.State()
	for i := range s.Interfaces {
		s.Interfaces[i].Identity, s.Interfaces[i].SendsIdentity = identity, sent
	}
	bpftest.Must(t, w.Apply(s))
}

// The programs stay, and each next packet has the form of the row.
func TestIdentity_Switched_NextPacketHasForm(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	for _, c := range []struct {
		name     string
		identity uint32
		sent     bool
		source   state.MAC
	}{
		{"not known, not sent", 0, false, world.ClassDirect},
		{"known, not sent", 1<<24 - 1, false, world.ClassDirect},
		{"sent", 0x010203, true, state.MAC{0x02, 0xa2, 0x01, 0x02, 0x03, 0}},
		{"another one", 1<<24 - 1, true, state.MAC{0x02, 0xa2, 0xff, 0xff, 0xff, 0}},
		{"sent, but not known", 0, true, state.MAC{0x02, 0xa2, 0, 0, 0, 0}},
		{"no longer sent", 0x010203, false, world.ClassDirect},
	} {
		identify(t, w, c.identity, c.sent)
		for way, f := range map[string]wire.Frame{
			"pushed":                  world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") }),
			"by the tunnel's device":  world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:1::20") }),
			"with options":            world.FromA(func(f *wire.Frame) { f.Dst, f.Options = wire.IP("10.0.1.20"), []byte{1, 1, 1, 0} }),
			"a fragment of the pod's": world.FromA(func(f *wire.Frame) { f.Dst, f.Fragment = wire.IP("10.0.1.20"), &wire.Fragment{More: true} }),
		} {
			in := f.Bytes()
			verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
			inner := out[len(out)-len(in):]
			if verdict != world.ActRedirect || state.MAC(inner[6:12]) != c.source || string(inner[12:]) != string(in[12:]) {
				t.Errorf("%s, %s: verdict %d, the inner frame is %x, want the source %s", c.name, way, verdict, inner, c.source)
			}
		}
	}
}

// Over IPv6 a packet that does not fit goes to the devices where it is fragmented.
func TestIdentity_FragmentedOverIPv6_Sent(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	identify(t, w, 0x010203, true)
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1280)
	in := long("fd10:0:0:1::20", 1280, world.Unchanged)
	verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
	source := world.IdentitySource(0x010203, 0, 0)
	if verdict != world.ActRedirect || len(out) != len(in) || state.MAC(out[6:12]) != source {
		t.Fatalf("verdict %d, %x goes to the fragmenter, want the source %s", verdict, out[:14], source)
	}
}

// No frame of a pod has an inner source by itself, whatever the node sends.
func TestIdentity_FrameOfPod_SpoofedMAC(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	for _, sent := range []bool{false, true} {
		identify(t, w, 4711, sent)
		var cases []world.Case
		for _, source := range []state.MAC{
			world.ClassDirect, world.ClassFromBouncer, world.IdentitySource(4711, 0, 0), world.IdentitySource(4712, 0, 0),
			world.IdentitySource(4712, world.Unjudged, 4),
		} {
			for _, dst := range []string{"10.0.1.11", "10.0.1.20"} { // here, and on another node
				f := world.FromA(func(f *wire.Frame) { f.EthSrc, f.Dst = source, wire.IP(dst) })
				cases = append(cases, world.Case{
					Name: source.String() + " to " + dst, Device: w.PodA, In: f.Bytes(), Verdict: world.ActShot, Counts: world.One("from_pod/spoofed_mac"),
				})
			}
			// A frame that holds a whole tunnel packet is an ordinary packet.
			inner := wire.Frame{EthDst: world.MacB, EthSrc: source, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.11"), L4: wire.UDP{Sport: 1, Dport: 2}}
			payload := append([]byte{8, 0, 0, 0, 0, 0, world.VNIRed, 0}, inner.Bytes()...)
			f := world.FromA(func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 4789, Dport: 4789, Payload: payload} })
			cases = append(cases, world.Case{
				Name: source.String() + " in a tunnel packet of a pod", Device: w.PodA, In: f.Bytes(), Verdict: world.ActRedirect,
				Out:    f.With(func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacB, state.VirtualMAC }).Bytes(),
				Counts: world.One("from_pod/forwarded_local"),
			})
		}
		w.Expect(t, w.Objects.AliothFromPod, cases)
	}
}

// Tunnel packets of unknown nodes have no identity that counts: they are refused.
func TestIdentity_SenderNoNode_Dropped(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	program := world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.66"))
	for class := range uint8(16) {
		f := situation{from: "20", to: "10"}.frame("10.0.1.", world.IdentitySource(4711, 0, class))
		w.Expect(t, program, []world.Case{sent(f.EthSrc.String(), w, f, "unknown_node")})
	}
}
