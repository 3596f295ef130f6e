// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Datapath has the functions of the datapath for a Tracer.
type Datapath interface {
	// Snapshot reads the content of the maps.
	Snapshot() (state.State, error)
	// Try runs the programs without side effects.
	Try(ask func(*datapath.Datapath) (trial.Outcome, error)) (trial.Outcome, error)
	// TunnelSource is the address under which this node sends tunnel packets.
	TunnelSource(family ipfamily.Family) netip.Addr
}

// Tracer traces a packet on this node. The verdict always comes from the programs themselves
// (datapath.TryFromPod); lookups in the maps only explain it.
type Tracer struct {
	words Words
	path  Datapath
	node  Node
}

// Node has the problems of the node.
type Node interface {
	// Warnings returns the problems that need an administrator.
	Warnings() []string
}

// NewTracer returns a Tracer that names things by words, and quotes the node's warnings.
func NewTracer(words Words, path Datapath, node Node) Tracer {
	return Tracer{words: words, path: path, node: node}
}

// arrival is a packet at a program, and the result of the program.
type arrival struct {
	at      string
	vni     uint32
	outcome trial.Outcome
	// before is the packet as it came, after as it left.
	before, after telemetry.Tuple
	proto         uint8
	state         state.State
}

// Answer runs the program at which a packet arrives, and returns the result.
func (t Tracer) Answer(_ context.Context, q nodestatus.Question) (nodestatus.PacketTrace, error) {
	a, err := t.arrive(q)
	if err != nil {
		return nodestatus.PacketTrace{}, err
	}
	step := nodestatus.PacketTrace{
		Node: t.words.nodeName, At: a.at, Reason: a.outcome.Reason.String(),
		Packet: nodestatus.Protocol(a.proto) + " " + ends(a.before, t.holderIn(a.vni)).String(),
		Facts:  append(t.facts(a), t.socketFacts(a.state, q)...),
	}
	if a.outcome.Reason.Drop() {
		step.Dropped, step.Does, step.Remedy = true, a.outcome.Reason.Means(), a.outcome.Reason.Remedy()
		return step, nil
	}
	return t.forwarded(step, a, q)
}

func (t Tracer) holderIn(vni uint32) func(netip.Addr) string {
	vpc := t.words.vpc(vni)
	return func(ip netip.Addr) string { return t.words.holder(vpc, ip) }
}

// arrive runs the program at which a packet arrives.
func (t Tracer) arrive(q nodestatus.Question) (a arrival, err error) {
	if a.state, err = t.path.Snapshot(); err != nil {
		return a, err
	}
	var frame []byte
	if q.Tunnel != nil {
		frame, err = q.Tunnel.Frame, t.receive(&a, *q.Tunnel)
	} else {
		frame, err = t.send(&a, q)
	}
	if err != nil {
		return a, err
	}
	var ok bool
	if a.before, a.proto, ok = readFrame(frame); !ok {
		return a, errors.New("the frame in the question is no IP packet")
	}
	a.after, _, _ = readFrame(a.outcome.Frame)
	return a, nil
}

// receive lets a packet come from the tunnel.
func (t Tracer) receive(a *arrival, in nodestatus.Tunnel) (err error) {
	a.vni = in.VNI
	a.at = fmt.Sprintf("from the tunnel, sent by %s for VPC %s", t.nodeName(in.From), t.vpcName(a.vni))
	a.outcome, err = t.path.Try(func(path *datapath.Datapath) (trial.Outcome, error) {
		return path.TryFromTunnel(in.VNI, in.From, in.Frame)
	})
	return err
}

// send makes a packet and lets it come from an interface.
func (t Tracer) send(a *arrival, q nodestatus.Question) (frame []byte, err error) {
	from, at, err := t.sender(q, a.state)
	if err != nil {
		return nil, err
	}
	a.at, a.vni = at, from.VNI
	packet := trialPacket{mac: from.MAC, to: q.To, proto: q.Proto, size: q.Size}
	if packet.from, err = ownAddress(from, q.To.Addr()); err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	frame = packet.frame()
	a.outcome, err = t.path.Try(func(path *datapath.Datapath) (trial.Outcome, error) {
		return path.TryFromPod(from.Ifindex, frame)
	})
	return frame, err
}

// sender finds the interface that is to send the packet.
func (t Tracer) sender(q nodestatus.Question, s state.State) (from state.Interface, at string, err error) {
	index, at := 0, "the node's interface in the default VPC"
	if !q.Outgoing {
		rec, err := t.attachment(q.Pod, q.Interface)
		if err != nil {
			return from, "", err
		}
		if why := untraceable(rec, q.Interface != ""); why != "" {
			return from, "", errors.New(strings.Join(append([]string{why}, t.socketFacts(s, q)...), "; "))
		}
		index = rec.Device.HostIfindex
		at = fmt.Sprintf("pod %s, interface %s in VPC %s (%s on the node)", rec.Pod, rec.IfName, rec.VPC, rec.HostIfName)
	}
	found := slices.IndexFunc(
		s.Interfaces,
		func(i state.Interface) bool { return i.Ifindex == index || q.Outgoing && i.Node },
	)
	if found < 0 {
		return from, "", fmt.Errorf(
			"%s is not programmed on node %s; aliothctl verify says what is wrong",
			at,
			t.words.nodeName,
		)
	}
	return s.Interfaces[found], at, nil
}

// untraceable explains why the programs do not process packets of an attachment, or
// returns "" if they do. named reports that the question names the interface.
func untraceable(rec journal.Record, named bool) string {
	why := ""
	switch {
	case !rec.InVPC():
		why = fmt.Sprintf("leads to network %q outside of every VPC", rec.Outside)
	case rec.External:
		why = "is made by another CNI plugin"
	case rec.Device.HostIfindex == 0:
		why = fmt.Sprintf("is a %s without a device on the node", rec.Kind)
	default:
		return ""
	}
	text := fmt.Sprintf(
		"interface %s of pod %s %s: Alioth forwards none of its packets, so there is nothing to trace",
		rec.IfName,
		rec.Pod,
		why,
	)
	if !named {
		text += "; --interface names another interface of the pod"
	}
	return text
}

// attachment finds a pod's interface; without a name, the one made first.
func (t Tracer) attachment(pod, name string) (journal.Record, error) {
	for _, rec := range t.words.records.Records() {
		if rec.Pod.String() == pod && rec.Phase == journal.PhaseDone && (name == "" || rec.IfName == name) {
			return rec, nil
		}
	}
	if name != "" {
		pod += " with an interface " + name
	}
	return journal.Record{}, fmt.Errorf(
		"node %s has no pod %s: it is on the host's network, or still waits for its interface; kubectl describe pod shows why",
		t.words.nodeName,
		pod,
	)
}

func ownAddress(from state.Interface, to netip.Addr) (netip.Addr, error) {
	for _, ip := range from.Addrs {
		if ip.Is4() == to.Is4() {
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("has no address of the family of %s", to)
}

// forwarded adds the destination of a packet that was not dropped.
func (t Tracer) forwarded(
	step nodestatus.PacketTrace,
	a arrival,
	q nodestatus.Question,
) (nodestatus.PacketTrace, error) {
	row := rowOf(a.state, a.vni, a.after.Dst)
	switch a.outcome.Reason {
	case telemetry.ForwardedLocal:
		step.Does = "delivered to " + t.deviceName(row.Ifindex)
	case telemetry.ForwardedRemote:
		return t.tunneled(step, a, a.outcome.Next, "sent through the tunnel to "+t.nodeName(a.outcome.Next)), nil
	case telemetry.ForwardedRole:
		return t.tunneled(
			step,
			a,
			a.outcome.Next,
			fmt.Sprintf("sent through the tunnel to %s, %s", t.nodeName(a.outcome.Next), a.outcome.Hop),
		), nil
	case telemetry.Returned:
		return t.tunneled(
			step,
			a,
			q.Tunnel.From,
			fmt.Sprintf("returned to %s: its destination is not here", t.nodeName(q.Tunnel.From)),
		), nil
	case telemetry.Replied:
		step.Does = "answered in place"
	case telemetry.RepliedTooBig:
		step.Dropped, step.Does = true, "too big for the path: the sender gets an ICMP error with the MTU"
	case telemetry.RepliedRefused:
		step.Dropped = true
		step.Does, step.Remedy = refusal(a)
	case telemetry.ToStack:
		return t.throughHost(step, a, q), nil
	default:
		return step, fmt.Errorf("a trial ended as %s, which leads nowhere", a.outcome.Reason)
	}
	return step, nil
}

// tunneled adds the next node of a packet.
func (t Tracer) tunneled(step nodestatus.PacketTrace, a arrival, next netip.Addr, does string) nodestatus.PacketTrace {
	step.Does, step.NextNode = does, t.words.node(next)
	step.Next = &nodestatus.Question{
		Tunnel: &nodestatus.Tunnel{VNI: a.vni, From: t.path.TunnelSource(ipfamily.Of(next)), Frame: a.outcome.Frame},
	}
	return step
}

// throughHost adds the decision of the host's rules about a packet that left the VPC, by
// the mark that the program has set.
func (t Tracer) throughHost(step nodestatus.PacketTrace, a arrival, q nodestatus.Question) nodestatus.PacketTrace {
	step.Facts = append(step.Facts, fmt.Sprintf("the pod's address on the node is %s", a.after.Src))
	for _, warning := range t.node.Warnings() {
		step.Facts = append(step.Facts, "a warning on this node: "+warning)
	}
	to := netip.AddrPortFrom(a.after.Dst, a.after.Dport)
	switch a.outcome.Mark {
	case state.MarkShared:
		backend := nodestatus.End{IP: to.Addr(), Port: to.Port(), Name: t.words.holder(t.defaultVPC(a.state), to.Addr())}
		step.Does = fmt.Sprintf("sent to a backend of the shared service: %s", backend)
		if t.inDefaultVPC(a.state, to.Addr()) {
			step.Next, step.NextNode = &nodestatus.Question{
				Outgoing: true,
				To:       to,
				Proto:    a.proto,
				Size:     q.Size,
			}, t.words.nodeName
		} else {
			step.Does += "; the node's routes apply"
		}
	case state.MarkEgress, state.MarkNode:
		step.Does = "sent out of the VPC, masqueraded to the node's address; the node's routes apply"
	default:
		step.Does = "delivered to the node, which accepts only replies to its own packets"
		if !slices.Contains(t.words.nodeShadows, to.Addr()) {
			step.Does = "delivered to the node, which forwards only replies to clients outside of the cluster"
		}
	}
	return step
}

func (t Tracer) defaultVPC(s state.State) string {
	for _, vpc := range s.VPCs {
		if vpc.Default {
			return t.words.vpc(vpc.VNI)
		}
	}
	return ""
}

func (t Tracer) inDefaultVPC(s state.State, ip netip.Addr) bool {
	return slices.ContainsFunc(s.VPCs, func(vpc state.VPC) bool { return vpc.Default && within(vpc.Prefixes, ip) })
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// rowOf looks up an address of a VPC. It returns the zero value for a missing address.
func rowOf(s state.State, vni uint32, ip netip.Addr) state.Address {
	at := slices.IndexFunc(s.Addresses, func(a state.Address) bool { return a.VNI == vni && a.IP == ip })
	if at < 0 {
		return state.Address{}
	}
	return s.Addresses[at]
}

func (t Tracer) vpcName(vni uint32) string {
	if name := t.words.vpc(vni); name != "" {
		return name
	}
	return fmt.Sprintf("with VNI %d, which is not here", vni)
}

func (t Tracer) nodeName(ip netip.Addr) string {
	if name := t.words.node(ip); name != "" {
		return fmt.Sprintf("node %s (%s)", name, ip)
	}
	return ip.String()
}

func (t Tracer) deviceName(ifindex int) string {
	if rec, ok := t.words.device(ifindex); ok {
		return fmt.Sprintf("pod %s, interface %s (%s on the node)", rec.Pod, rec.IfName, rec.HostIfName)
	}
	return "the node's own interface in the default VPC"
}

// facts describe the rows of the maps for the destination, in the order of the programs'
// lookups.
func (t Tracer) facts(a arrival) []string {
	dst := a.before.Dst
	switch row := rowOf(a.state, a.vni, dst); row.Kind {
	case state.Local:
		return []string{fmt.Sprintf("address table: %s is on this node, at %s", dst, t.deviceName(row.Ifindex))}
	case state.Remote:
		return []string{fmt.Sprintf("address table: %s is on %s", dst, t.nodeName(row.Node))}
	case state.Gateway:
		return []string{fmt.Sprintf("address table: %s is a gateway", dst)}
	case state.HeldOutside:
		return []string{fmt.Sprintf("address table: %s is that of an interface of another CNI plugin", dst)}
	}
	facts := append([]string{fmt.Sprintf("address table: VPC %s has no %s", t.vpcName(a.vni), dst)}, t.beyondFacts(dst)...)
	for _, subnet := range a.state.Subnets {
		if subnet.VNI == a.vni && subnet.Prefix.Contains(dst) {
			return append(
				facts,
				fmt.Sprintf("subnet %s would have it%s", subnet.Prefix, t.membersOf(a, subnet.Role, "bouncers")),
			)
		}
	}
	for _, vpc := range a.state.VPCs {
		if vpc.VNI == a.vni && within(vpc.Prefixes, dst) {
			return append(
				facts,
				"the VPC's ranges have it, but no subnet that is known here"+t.membersOf(a, vpc.Role, "dividers"),
			)
		}
	}
	return append(facts, t.outsideFacts(a)...)
}

// membersOf describes a role of the packet's VPC; "" for none.
func (t Tracer) membersOf(a arrival, id uint32, kind string) string {
	at := slices.IndexFunc(a.state.Roles, func(r state.Role) bool { return r.Key == state.RoleKey{VNI: a.vni, ID: id} })
	if id == 0 || at < 0 {
		return ""
	}
	role := a.state.Roles[at]
	names := []string{}
	for _, member := range role.Members {
		names = append(names, t.nodeName(member))
	}
	switch {
	case role.Here && role.Complete:
		names = append(names, "this node")
	case role.Here:
		names = append(names, "this node, which is still reading its table")
	}
	if len(names) == 0 {
		names = []string{"none that serves"}
	}
	return fmt.Sprintf("; its %s: %s", kind, strings.Join(names, ", "))
}

// beyondFacts names the pods of this node that have the address on networks outside of every VPC.
// The programs send no packets to these networks.
func (t Tracer) beyondFacts(ip netip.Addr) (facts []string) {
	for _, rec := range t.words.records.Records() {
		if !rec.InVPC() && slices.ContainsFunc(rec.Addrs, func(p netip.Prefix) bool { return p.Addr() == ip }) {
			facts = append(
				facts,
				fmt.Sprintf("pod %s has %s on interface %s in network %q outside of every VPC, to which Alioth does not forward",
					rec.Pod, ip, rec.IfName, rec.Outside),
			)
		}
	}
	return facts
}

// outsideFacts returns facts about a destination that the VPC does not have.
func (t Tracer) outsideFacts(a arrival) (facts []string) {
	dst := a.before.Dst
	ports := 0
	for _, service := range a.state.Services {
		if service.VIP != dst {
			continue
		}
		ports++
		facts = append(facts, fmt.Sprintf("shared service %s: port %d/%s, backends: %d", t.words.service(dst), service.Port,
			nodestatus.Protocol(service.Proto), len(service.Backends)))
	}
	if ports > 0 {
		return facts
	}
	for _, vpc := range a.state.VPCs {
		if vpc.VNI == a.vni {
			egress := map[bool]string{true: "Masquerade", false: "None"}[vpc.EgressMasquerade]
			facts = append(facts, "the VPC does not have it; its egress: "+egress)
		}
	}
	for _, scope := range []uint32{0, a.vni} {
		if entry, ok := longestEntry(a.state.Closed, scope, dst); ok {
			whose := map[bool]string{true: "every VPC", false: "this VPC"}[scope == 0]
			facts = append(facts, fmt.Sprintf("egress list of %s: %s is %s", whose, entry.Prefix, entry.Class))
		}
	}
	return facts
}

// longestEntry finds the entry of a destination in the egress list of a VPC, or with VNI 0 in the
// egress list of every VPC.
func longestEntry(list []state.ClosedPrefix, vni uint32, dst netip.Addr) (found state.ClosedPrefix, ok bool) {
	for _, entry := range list {
		if entry.VNI == vni && entry.Prefix.Contains(dst) && (!ok || entry.Prefix.Bits() > found.Prefix.Bits()) {
			found, ok = entry, true
		}
	}
	return found, ok
}
