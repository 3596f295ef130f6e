// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial runs the loaded programs with a packet, without effects.
package trial

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// written are the maps that programs write. A trial has its own; all others are the
// datapath's. The ring of flows is shared, but not written: the variable that enables
// it is the trial's own, and always 0.
var written = []string{
	bpf.CountersMap, bpf.DropCountersMap, bpf.DropsMap, "alioth_drop_gate", "alioth_icmp_gate", "alioth_role_gate", bpf.ConnectionsMap,
	bpf.OpenedMap, bpf.WaysMap, bpf.FragmentsMap, bpf.AffinitiesMap,
}

// Trial is a second copy of the programs that returns their result for a packet. It uses the maps
// of the datapath's decisions. Its writes go to maps of its own, and it does not change cached
// rows and misses. So a trial's packet is not counted or reported, opens no flow and uses up no
// limit. The packet is not redirected, because the kernel runs the program alone. A trial has no
// flow to a service: its packet is the first packet of a flow. Its methods must not be called
// concurrently.
type Trial struct {
	objects trialObjects
	// opened are the numbers of flows of interfaces, in the datapath's own map.
	opened *ebpf.Map
	// tunnel is the index of the tunnel's device.
	tunnel int
}

// trialObjects are the programs that a trial runs, and the maps that they write.
type trialObjects struct {
	FromPod    *ebpf.Program `ebpf:"alioth_from_pod"`
	FromTunnel *ebpf.Program `ebpf:"alioth_from_tunnel"`

	Counters     *ebpf.Map `ebpf:"alioth_counters"`
	DropCounters *ebpf.Map `ebpf:"alioth_drop_counters"`
	Drops        *ebpf.Map `ebpf:"alioth_drops"`
	DropGate     *ebpf.Map `ebpf:"alioth_drop_gate"`
	Connections  *ebpf.Map `ebpf:"alioth_connections"`
	ConnOpened   *ebpf.Map `ebpf:"alioth_conn_opened"`

	Hop *ebpf.Variable `ebpf:"alioth_hop"`

	ICMPGate   *ebpf.Map `ebpf:"alioth_icmp_gate"`
	RoleGate   *ebpf.Map `ebpf:"alioth_role_gate"`
	Ways       *ebpf.Map `ebpf:"alioth_ways"`
	Fragments  *ebpf.Map `ebpf:"alioth_fragments"`
	Affinities *ebpf.Map `ebpf:"alioth_affinities"`
}

// Outcome is the result of a program for a packet.
type Outcome struct {
	Reason telemetry.Reason
	// Frame is the packet as it left the program, without the outer headers of a
	// tunnel; the original one if it was dropped unchanged.
	Frame []byte
	// Next is the node that a ForwardedRemote or ForwardedRole packet was sent to, otherwise the
	// zero value.
	Next netip.Addr
	// Hop is the reason to send it there.
	Hop Hop
	// Mark is the mark for the host's rules on a packet to the host's stack.
	Mark uint32
}

// New loads the programs of spec, which it changes, upon these maps. tunnel is the
// index of the tunnel's device.
func New(spec *ebpf.CollectionSpec, maps bpf.Maps, tunnel int) (*Trial, error) {
	shared := map[string]*ebpf.Map{}
	for name, m := range maps {
		if !slices.Contains(written, name) {
			shared[name] = m
		}
	}
	// One packet needs little room: the minimum of the kernel, and two entries for a
	// flow.
	spec.Maps[bpf.DropsMap].MaxEntries = uint32(os.Getpagesize())
	spec.Maps[bpf.DropCountersMap].MaxEntries = 1
	spec.Maps["alioth_drop_gate"].MaxEntries = 1
	spec.Maps[bpf.ConnectionsMap].MaxEntries = 2
	spec.Maps[bpf.FragmentsMap].MaxEntries = 1
	spec.Maps[bpf.AffinitiesMap].MaxEntries = 1 // which has no table: a trial's client is new
	if err := spec.Variables["alioth_trial"].Set(true); err != nil {
		return nil, fmt.Errorf("tell programs of a trial: %w", err)
	}
	t := &Trial{opened: maps[bpf.OpenedMap], tunnel: tunnel}
	if err := spec.LoadAndAssign(&t.objects, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		return nil, fmt.Errorf("load programs for a trial: %w", err)
	}
	return t, nil
}

// FromPod returns the result for a frame, the first of its flow, that an interface
// sent.
func (t *Trial) FromPod(ifindex int, frame []byte) (Outcome, error) {
	if err := t.forget(); err != nil {
		return Outcome{}, err
	}
	var opened uint32
	err := t.opened.Lookup(uint32(ifindex), &opened)
	if err == nil {
		// So that an exhausted limit has its effect.
		err = t.objects.ConnOpened.Put(uint32(ifindex), opened)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return Outcome{}, fmt.Errorf("look up flows of device %d: %w", ifindex, err)
	}
	return t.run(t.objects.FromPod, ifindex, frame)
}

// FromTunnel returns the result for a frame that another node sent from its address, in
// a VPC.
func (t *Trial) FromTunnel(vni uint32, node netip.Addr, frame []byte) (Outcome, error) {
	if err := t.forget(); err != nil {
		return Outcome{}, err
	}
	program, release, err := bpf.WithTunnelKey(t.objects.FromTunnel, vni, node)
	if err != nil {
		return Outcome{}, err
	}
	defer release()
	return t.run(program, t.tunnel, frame)
}

// forget resets a trial, except its counters and events.
func (t *Trial) forget() error {
	o := &t.objects
	for _, m := range []*ebpf.Map{o.Connections, o.ConnOpened, o.Fragments, o.ICMPGate, o.RoleGate, o.Ways} {
		if err := bpf.Empty(m); err != nil {
			return fmt.Errorf("forget what the last trial has left: %w", err)
		}
	}
	return nil
}

// Close releases the trial's programs and maps.
func (t *Trial) Close() {
	o := &t.objects
	for _, held := range []io.Closer{
		o.FromPod, o.FromTunnel, o.Counters, o.DropCounters, o.Drops, o.DropGate, o.Connections, o.ConnOpened, o.ICMPGate,
		o.RoleGate,
		o.Ways, o.Fragments, o.Affinities,
	} {
		held.Close()
	}
}

// run runs a program once. Only it writes the trial's counters.
func (t *Trial) run(program *ebpf.Program, ifindex int, frame []byte) (Outcome, error) {
	own := bpf.Maps{bpf.CountersMap: t.objects.Counters}
	before, err := telemetry.ReadCounters(own)
	if err != nil {
		return Outcome{}, err
	}
	ctx, end := bpf.Received(ifindex), bpf.Context{}
	options := &ebpf.RunOptions{
		Data:       frame,
		DataOut:    make([]byte, len(frame)+maxHeadroom),
		Context:    &ctx,
		ContextOut: &end,
	}
	if _, err := program.Run(options); err != nil {
		return Outcome{}, fmt.Errorf("run %s: %w", program, err)
	}
	after, err := telemetry.ReadCounters(own)
	if err != nil {
		return Outcome{}, err
	}
	counted := slices.IndexFunc(after, func(c telemetry.Counter) bool { return !slices.Contains(before, c) })
	if counted < 0 {
		return Outcome{}, fmt.Errorf("run %s: it counted nothing", program)
	}
	outcome := Outcome{Reason: after[counted].Reason, Frame: options.DataOut, Mark: end.Mark & state.MarkMask}
	if outcome.Reason != telemetry.ForwardedRemote && outcome.Reason != telemetry.ForwardedRole {
		return outcome, nil
	}
	if outer := len(outcome.Frame) - len(frame); outer > 0 {
		outcome.Frame = outcome.Frame[outer:]
	}
	var hop bpf.AliothTrialHop
	if err := t.objects.Hop.Get(&hop); err != nil {
		return Outcome{}, fmt.Errorf("read the next node of %s: %w", program, err)
	}
	outcome.Next, outcome.Hop = bpf.DecodeAddr(hop.Node), Hop(hop.Class)
	return outcome, nil
}

// maxHeadroom is more than the programs add in front of a packet.
const maxHeadroom = 256
