// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// written are the maps that programs write. A trial has its own; all others are
// the datapath's. Those of flows it shares and does not write: it has a variable of
// its own that reports whether somebody asks, and nobody does.
var written = []string{
	"alioth_counters", dropCountersMap, "alioth_drops", "alioth_drop_gate", "alioth_icmp_gate", connectionsMap,
	"alioth_conn_opened", waysMap, fragmentsMap, affinitiesMap,
}

// trial is the programs themselves, to be asked what they would do with a
// packet. They are loaded a second time, upon the maps in which the datapath
// finds its decisions; what they write goes into maps of the trial. So a trial's
// packet is counted and reported nowhere, opens no flow and uses up nobody's
// share; and one that would be redirected goes nowhere, because the kernel runs
// the program alone. A trial knows of no flow to a service: its packet is the
// first of one.
type trial struct {
	FromPod    *ebpf.Program `ebpf:"alioth_from_pod"`
	FromTunnel *ebpf.Program `ebpf:"alioth_from_tunnel"`

	Counters     *ebpf.Map `ebpf:"alioth_counters"`
	DropCounters *ebpf.Map `ebpf:"alioth_drop_counters"`
	Drops        *ebpf.Map `ebpf:"alioth_drops"`
	DropGate     *ebpf.Map `ebpf:"alioth_drop_gate"`
	Connections  *ebpf.Map `ebpf:"alioth_connections"`
	ConnOpened   *ebpf.Map `ebpf:"alioth_conn_opened"`
	ICMPGate     *ebpf.Map `ebpf:"alioth_icmp_gate"`
	Ways         *ebpf.Map `ebpf:"alioth_ways"`
	Fragments    *ebpf.Map `ebpf:"alioth_fragments"`
	Affinities   *ebpf.Map `ebpf:"alioth_affinities"`
}

// Outcome is what a program would do with a packet.
type Outcome struct {
	Reason Reason
	// Frame is the packet as it left the program, without the outer headers of
	// a tunnel; as it came, when it was dropped unchanged.
	Frame []byte
	// Mark says how far the host's rules let a packet go that left by the
	// shadow door.
	Mark uint32
}

// errUnfilled says that another version's programs serve the node still.
var errUnfilled = errors.New("the node's maps are being replaced by those of this version; try again in a moment")

// TryFromPod returns what would become of a frame, the first of its flow, that
// an interface sent. Nothing of the datapath is changed. It must not be called at
// the same time as Close.
func (d *Datapath) TryFromPod(ifindex int, frame []byte) (Outcome, error) {
	return d.try(func(t *trial) (Outcome, error) { return d.tryFromPod(t, ifindex, frame) })
}

func (d *Datapath) tryFromPod(t *trial, ifindex int, frame []byte) (Outcome, error) {
	var opened uint32
	err := d.objects.AliothConnOpened.Lookup(uint32(ifindex), &opened)
	if err == nil {
		// So that a share which is used up shows.
		err = t.ConnOpened.Put(uint32(ifindex), opened)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return Outcome{}, fmt.Errorf("look up flows of device %d: %w", ifindex, err)
	}
	return t.run(t.FromPod, ifindex, frame)
}

// TryFromTunnel returns what would become of a frame that another node sent from
// its address, in a VPC. Nothing of the datapath is changed. It must not be called
// at the same time as Close.
func (d *Datapath) TryFromTunnel(vni uint32, node netip.Addr, frame []byte) (Outcome, error) {
	return d.try(func(t *trial) (Outcome, error) {
		program, release, err := withTunnelKey(t.FromTunnel, vni, node)
		if err != nil {
			return Outcome{}, err
		}
		defer release()
		return t.run(program, d.cfg.VXLANIfindex, frame)
	})
}

// try asks one question. The first loads the trial's programs, which takes the
// kernel so long that Apply is not made to wait for it; only Close must not come
// in between.
func (d *Datapath) try(ask func(*trial) (Outcome, error)) (Outcome, error) {
	d.mu.Lock()
	unfilled := d.promote != nil
	d.mu.Unlock()
	if unfilled {
		return Outcome{}, errUnfilled
	}
	d.trials.Lock()
	defer d.trials.Unlock()
	if d.trial == nil {
		t, err := d.newTrial()
		if err != nil {
			return Outcome{}, err
		}
		d.trial = t
	}
	if err := d.trial.forget(); err != nil {
		return Outcome{}, err
	}
	return ask(d.trial)
}

// forget makes a trial that has been asked before like a new one, but for how
// much it has counted and reported.
func (t *trial) forget() error {
	for _, m := range []*ebpf.Map{t.Connections, t.ConnOpened, t.Fragments, t.ICMPGate, t.Ways} {
		if err := empty(m); err != nil {
			return fmt.Errorf("forget what the last trial has left: %w", err)
		}
	}
	return nil
}

// empty deletes every row of a map that nobody else writes.
func empty(m *ebpf.Map) error {
	key, err := m.NextKeyBytes(nil)
	for err == nil && key != nil {
		// From a row that is there the kernel need not search for the next.
		next, err := m.NextKeyBytes(key)
		if err != nil {
			return err
		}
		if err := m.Delete(key); err != nil {
			return err
		}
		key = next
	}
	return err
}

func (d *Datapath) newTrial() (*trial, error) {
	spec, err := specify(d.cfg)
	if err != nil {
		return nil, err
	}
	shared := byName(d.objects)
	for _, name := range written {
		delete(shared, name)
	}
	// One packet needs little room: the least that the kernel takes, and two
	// entries for a flow.
	spec.Maps["alioth_drops"].MaxEntries = uint32(os.Getpagesize())
	spec.Maps[dropCountersMap].MaxEntries = 1
	spec.Maps["alioth_drop_gate"].MaxEntries = 1
	spec.Maps[connectionsMap].MaxEntries = 2
	spec.Maps[fragmentsMap].MaxEntries = 1
	spec.Maps[affinitiesMap].MaxEntries = 1 // which has no table: a trial's client is new
	t := &trial{}
	if err := spec.LoadAndAssign(t, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		return nil, fmt.Errorf("load programs for a trial: %w", err)
	}
	return t, nil
}

func (t *trial) close() {
	for _, held := range []io.Closer{
		t.FromPod, t.FromTunnel, t.Counters, t.DropCounters, t.Drops, t.DropGate, t.Connections, t.ConnOpened, t.ICMPGate,
		t.Ways, t.Fragments, t.Affinities,
	} {
		held.Close()
	}
}

// run runs a program once. Nobody else writes the trial's counters.
func (t *trial) run(program *ebpf.Program, ifindex int, frame []byte) (Outcome, error) {
	own := newReader(map[string]*ebpf.Map{"alioth_counters": t.Counters})
	before, err := own.Counters()
	if err != nil {
		return Outcome{}, err
	}
	ctx, end := received(ifindex), skbContext{}
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+maxHeadroom), Context: &ctx, ContextOut: &end}
	if _, err := program.Run(options); err != nil {
		return Outcome{}, fmt.Errorf("run %s: %w", program, err)
	}
	after, err := own.Counters()
	if err != nil {
		return Outcome{}, err
	}
	counted := slices.IndexFunc(after, func(c Counter) bool { return !slices.Contains(before, c) })
	if counted < 0 {
		return Outcome{}, fmt.Errorf("run %s: it counted nothing", program)
	}
	outcome := Outcome{Reason: after[counted].Reason, Frame: options.DataOut, Mark: end.Mark & state.MarkMask}
	if outer := len(outcome.Frame) - len(frame); outcome.Reason == ForwardedRemote && outer > 0 {
		outcome.Frame = outcome.Frame[outer:]
	}
	return outcome, nil
}

// maxHeadroom is more than the programs put in front of a packet.
const maxHeadroom = 256

// received is the context of a packet that a device has received.
func received(ifindex int) skbContext {
	return skbContext{Ifindex: uint32(ifindex), IngressIfindex: uint32(ifindex)}
}

// skbContext is struct __sk_buff, as a test run takes and gives it.
type skbContext struct {
	Len, PktType, Mark, QueueMapping, Protocol   uint32
	VlanPresent, VlanTCI, VlanProto, Priority    uint32
	IngressIfindex, Ifindex, TCIndex             uint32
	CB                                           [5]uint32
	Hash, TCClassid, Data, DataEnd, NAPI, Family uint32
	RemoteIP4, LocalIP4                          uint32
	RemoteIP6, LocalIP6                          [4]uint32
	RemotePort, LocalPort, DataMeta              uint32
	FlowKeys, Tstamp                             uint64
	WireLen, GSOSegs                             uint32
	SK                                           uint64
	GSOSize, Pad2                                uint32
	HardwareTstamp                               uint64
}

// withTunnelKey returns a program that gives a packet the tunnel key which the
// VXLAN device would give it, and goes on to another program. Call release after
// use.
func withTunnelKey(next *ebpf.Program, vni uint32, node netip.Addr) (program *ebpf.Program, release func(), err error) {
	// The kernel empties it when nobody holds it any more, so it stays open.
	jump, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, nil, fmt.Errorf("make map: %w", err)
	}
	if err := jump.Put(uint32(0), next); err != nil {
		jump.Close()
		return nil, nil, fmt.Errorf("link programs: %w", err)
	}
	words, flags := tunnelKey(vni, node)
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	for i, w := range words {
		code = append(code, asm.StoreImm(asm.RFP, int16(4*i-tunnelKeySize), int64(int32(w)), asm.Word))
	}
	code = append(code,
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -tunnelKeySize),
		asm.Mov.Imm(asm.R3, tunnelKeySize), asm.Mov.Imm(asm.R4, flags),
		asm.FnSkbSetTunnelKey.Call(),
		asm.Mov.Reg(asm.R1, asm.R6), asm.LoadMapPtr(asm.R2, jump.FD()), asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, -1), asm.Return(),
	)
	program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "GPL", Instructions: code,
	})
	if err != nil {
		jump.Close()
		return nil, nil, fmt.Errorf("load program: %w", err)
	}
	return program, func() {
		program.Close()
		jump.Close()
	}, nil
}

// tunnelKeySize is that of struct bpf_tunnel_key.
const tunnelKeySize = 44

// tunnelKey is a struct bpf_tunnel_key in words, and the helper's flags. The
// helper that sets a key writes the local address where the receiving side finds
// the sender's.
func tunnelKey(vni uint32, node netip.Addr) (words [tunnelKeySize / 4]uint32, flags int32) {
	const local = 28 / 4
	words[0] = vni
	if node.Is4() {
		b := node.As4()
		words[local] = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		return words, 0
	}
	b := node.As16()
	for i := range 4 {
		words[local+i] = uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24
	}
	return words, 1 // BPF_F_TUNINFO_IPV6
}
