// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
)

// NotEnforced tells that answers have no effect on packets yet. Step 8 of docs/design/165 deletes
// it, and sets Enforced.
const NotEnforced = "Alioth does not enforce network policies yet: the answer is about the policies, and not about packets"

// Enforced reports whether Alioth enforces network policies.
const Enforced = false

// Verdicts.
const (
	Allowed = "allowed"
	Refused = "refused"
	// Unreachable means that no policy can allow the packet.
	Unreachable = "unreachable"
)

// Answer is the verdict about a packet, with its explanation.
type Answer struct {
	Enforced bool   `json:"enforced"`
	From     string `json:"from"`
	To       string `json:"to"`
	Port     string `json:"port"`
	// Verdict is allowed if every path is.
	Verdict string `json:"verdict"`
	// Paths has one path, or one for each backend of a Service. Where the families of addresses
	// differ in their verdicts, each has a path.
	Paths    []Path    `json:"paths"`
	Problems []Problem `json:"problems,omitempty"`
	// Partial is true if a policy can't be read, which the verdict leaves out.
	Partial bool     `json:"partial,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Path is a packet between two addresses.
type Path struct {
	From    Party  `json:"from"`
	To      Party  `json:"to"`
	Port    string `json:"port"`
	Verdict string `json:"verdict"`
	// Why explains a verdict that no policy decides.
	Why string `json:"why,omitempty"`
	// Egress is the decision about From, Ingress the decision about To; nil for an end that
	// policies do not select.
	Egress  *Decision `json:"egress,omitempty"`
	Ingress *Decision `json:"ingress,omitempty"`
}

// Party is an end of a path, as it is printed.
type Party struct {
	Kind string `json:"kind"`
	// Name is namespace/name of an object, else the address.
	Name    string   `json:"name"`
	VPC     string   `json:"vpc,omitempty"`
	Network string   `json:"network,omitempty"`
	IPs     []string `json:"ips,omitempty"`
	// HostNetwork is true for a pod on the network of its node.
	HostNetwork bool `json:"hostNetwork,omitempty"`
}

// Decision is the decision of one direction.
type Decision struct {
	Allowed bool `json:"allowed"`
	// Policy decides, as "kind namespace/name"; "" if no policy decides.
	Policy string `json:"policy,omitempty"`
	// Rule is the place of the rule in the policy, such as spec.ingress[0]; "" if the policy
	// isolates the pod and no rule accepts the packet.
	Rule     string `json:"rule,omitempty"`
	RuleName string `json:"ruleName,omitempty"`
	Tier     string `json:"tier,omitempty"`
	// Text explains the decision in a sentence.
	Text string `json:"text"`
	// Remedy would allow a refused packet.
	Remedy *Remedy `json:"remedy,omitempty"`
}

// Remedy is a change that allows a packet.
type Remedy struct {
	Text string `json:"text"`
	// Rule is YAML for the spec of the policy; "" without one.
	Rule string `json:"rule,omitempty"`
}

// Explain answers a question.
func (o *Objects) Explain(q *Question) (*Answer, error) {
	from, targets, err := o.ends(q)
	if err != nil {
		return nil, err
	}
	a := &Answer{
		Enforced: Enforced, From: q.From.String(), To: q.To.String(), Port: q.Port.String(),
		Verdict: Allowed, Problems: o.problems, Partial: o.partial, Notes: o.notes(from, targets),
	}
	for _, to := range targets {
		a.Paths = append(a.Paths, o.paths(from, to)...)
	}
	for _, one := range a.Paths {
		if one.Verdict == Refused || one.Verdict == Unreachable && a.Verdict == Allowed {
			a.Verdict = one.Verdict
		}
	}
	return a, nil
}

// ends finds both ends. The VPC of an address is the one of the other end, unless the question has
// one.
func (o *Objects) ends(q *Question) (from *end, to []target, err error) {
	if q.From.Sort == Service {
		return nil, nil, fmt.Errorf("%s: a Service sends no packets: name a pod", q.From)
	}
	if q.From.Sort != IP {
		if from, _, err = o.end(q.From, q, "", "from "); err != nil {
			return nil, nil, err
		}
	}
	if to, err = o.targets(q, from); err != nil {
		return nil, nil, err
	}
	if from == nil {
		vpc := q.VPC
		for _, one := range to {
			if vpc == "" {
				vpc = one.VPC
			}
		}
		var service *corev1.Service
		if from, service, err = o.end(q.From, q, vpc, "from "); err != nil {
			return nil, nil, err
		}
		if service != nil {
			return nil, nil, fmt.Errorf("%s is an address of Service %s/%s, which sends no packets: name a pod",
				q.From, service.Namespace, service.Name)
		}
	}
	if from.pod == nil && !slices.ContainsFunc(to, func(one target) bool { return one.pod != nil }) {
		return nil, nil, errors.New("policies select pods in VPCs and on networks: one end has to be such a pod")
	}
	return from, to, nil
}

// targets finds the ends of packets to the target of a question.
func (o *Objects) targets(q *Question, from *end) ([]target, error) {
	vpc := q.VPC
	if vpc == "" && from != nil {
		vpc = from.VPC
	}
	to, service, err := o.end(q.To, q, vpc, "to ")
	if err != nil {
		return nil, err
	}
	if service != nil {
		return o.backends(service, q)
	}
	port := q.Port
	if port.Number == 0 {
		if port.Number = to.portNamed(port.Name, port.Protocol); port.Number == 0 {
			return nil, fmt.Errorf("%s has no port with the name %s/%s", q.To, port.Name, port.Protocol)
		}
	}
	return []target{{to, port}}, nil
}

// end finds an end, or the Service that it is.
func (o *Objects) end(ref Ref, q *Question, vpc, side string) (*end, *corev1.Service, error) {
	switch ref.Sort {
	case Pod:
		e, err := o.pod(ref.Name, q)
		return e, nil, err
	case Service:
		service := o.Services[ref.Name]
		if service == nil {
			return nil, nil, &NotFoundError{Ref: ref, Files: o.FromFiles}
		}
		return nil, service, nil
	case IP:
		if vpc == "" {
			vpc = o.DefaultVPC
		}
		return o.address(ref.IP, vpc, q)
	}
	e, err := o.template(ref, q, side+ref.String())
	return e, nil, err
}

// paths judges the packets between two ends: one for each family that both have.
func (o *Objects) paths(from *end, to target) (list []Path) {
	party := func(p Party, ips ...netip.Addr) Party {
		for _, ip := range ips {
			if ip.IsValid() && p.Kind != string(IP) && !slices.Contains(p.IPs, ip.String()) {
				p.IPs = append(slices.Clone(p.IPs), ip.String())
			}
		}
		return p
	}
	path := Path{From: from.Party, To: to.Party, Port: to.port.String(), Verdict: Unreachable}
	if from.uid != "" && from.uid == to.uid {
		path.From, path.To = party(from.Party, from.ips...), party(to.Party, to.ips...)
		path.Verdict, path.Why = Allowed, "a pod always reaches itself, and policies are not asked"
		return []Path{path}
	}
	if path.Why = o.apart(from, to.end); path.Why != "" {
		return []Path{path}
	}
	pairs := pairsOf(from.ips, to.ips)
	if len(pairs) == 0 {
		path.Why = "the two ends have no family of addresses in common"
		return []Path{path}
	}
	for _, ips := range pairs {
		one := o.judge(from, to, ips)
		if n := len(list); n > 0 && sameVerdict(&list[n-1], &one) {
			list[n-1].From, list[n-1].To = party(list[n-1].From, ips[0]), party(list[n-1].To, ips[1])
			continue
		}
		one.From, one.To = party(from.Party, ips[0]), party(to.Party, ips[1])
		list = append(list, one)
	}
	return list
}

// apart tells why no packet gets from one end to the other, "" if policies decide.
func (o *Objects) apart(from, to *end) string {
	if from.pod == nil || to.pod == nil || from.VPC == to.VPC || o.isShared(from, to) {
		return ""
	}
	why := fmt.Sprintf("VPC %s of the sender and VPC %s of the receiver are separate, whatever policies say",
		from.VPC, to.VPC)
	if to.service == nil {
		why += "; a SharedService leads from one VPC to the other, and is asked for as svc/NAMESPACE/NAME"
	}
	return why
}

// isShared reports whether the packet leaves its VPC by a shared service.
func (o *Objects) isShared(from, to *end) bool {
	return to.service != nil && from.VPC != "" && (to.pod == nil || to.VPC != from.VPC) &&
		slices.Contains(o.Shared, Name{to.service.Namespace, to.service.Name})
}

// pairsOf returns the addresses of both ends, by family. Of an end without known addresses the
// zero address stands for them.
func pairsOf(from, to []netip.Addr) (list [][2]netip.Addr) {
	if len(from) == 0 && len(to) == 0 {
		return [][2]netip.Addr{{}}
	}
	for _, family := range ipfamily.Both {
		a, b := inFamily(from, family), inFamily(to, family)
		if (a.IsValid() || len(from) == 0) && (b.IsValid() || len(to) == 0) && (a.IsValid() || b.IsValid()) {
			list = append(list, [2]netip.Addr{a, b})
		}
	}
	return list
}

// inFamily returns the first address of a family, the zero address without one.
func inFamily(ips []netip.Addr, family ipfamily.Family) netip.Addr {
	for _, ip := range ips {
		if family.Has(ip) {
			return ip
		}
	}
	return netip.Addr{}
}

// judge judges the packet between two addresses.
func (o *Objects) judge(from *end, to target, ips [2]netip.Addr) Path {
	p := &rules.Packet{
		From: rules.End{IP: ips[0], Pod: from.pod, UID: from.uid}, To: rules.End{IP: ips[1], Pod: to.pod, UID: to.uid},
		Protocol: to.port.Protocol, Port: to.port.Number,
	}
	if o.isShared(from, to.end) {
		p.From.Shared, p.To.Shared = true, true
		p.From.IP = inFamily(from.nodeIPs, ipfamily.Of(ips[1]))
		p.To.Virtual = inFamily(to.virtual, ipfamily.Of(ips[1]))
	}
	v := o.index.Judge(p)
	path := Path{Port: to.port.String(), Verdict: Allowed}
	if !v.Allowed() {
		path.Verdict = Refused
	}
	if from.pod != nil {
		path.Egress = o.decision(v.Egress, &side{direction: policy.Egress, packet: p, self: &p.From, peer: &p.To})
	}
	if to.pod != nil {
		path.Ingress = o.decision(v.Ingress, &side{direction: policy.Ingress, packet: p, self: &p.To, peer: &p.From})
	}
	return path
}

// sameVerdict reports whether two paths have the same decisions for the same reasons. Rules for
// addresses differ between families, so remedies do not count.
func sameVerdict(a, b *Path) bool {
	return a.Verdict == b.Verdict && sameDecision(a.Egress, b.Egress) && sameDecision(a.Ingress, b.Ingress)
}

func sameDecision(a, b *Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Text == b.Text
}

// notes tells what the objects lack for a certain answer.
func (o *Objects) notes(from *end, to []target) (notes []string) {
	for _, e := range append([]*end{from}, endsOf(to)...) {
		switch {
		case len(e.ips) > 0 || !o.hasRanges():
		case e.HostNetwork:
			notes = append(notes, fmt.Sprintf("%s %s is on the network of its node, whose address is not known: "+
				"no rule by addresses matches it", e.Kind, e.Name))
		default:
			notes = append(notes, fmt.Sprintf("the address of %s %s is not known: no rule by addresses matches it",
				e.Kind, e.Name))
		}
		if o.FromFiles && e.pod != nil && o.Namespaces[e.pod.Namespace] == nil {
			notes = append(notes, fmt.Sprintf("the files have no Namespace %s: it counts with the label of its name alone",
				e.pod.Namespace))
		}
	}
	notes = append(notes, o.extra...)
	slices.Sort(notes)
	return slices.Compact(notes)
}

// hasRanges reports whether a policy has rules by addresses.
func (o *Objects) hasRanges() bool {
	for _, row := range o.policies {
		for _, rules := range row.Rules {
			for i := range rules {
				if slices.ContainsFunc(rules[i].Peers, func(one policy.Peer) bool { return one.Block != nil }) {
					return true
				}
			}
		}
	}
	return false
}

func endsOf(targets []target) (list []*end) {
	for _, one := range targets {
		list = append(list, one.end)
	}
	return list
}
