// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds parts of network policies that probably mean something else than their author
// thinks: selectors that match no pod, ports that no pod names, and ranges inside a VPC
// (docs/design/165). A finding is a hint, and changes no verdict. The package is pure.
package lint

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
)

// Reason is the sort of a Finding, in the form of the reasons of Kubernetes' events.
type Reason string

// Reasons.
const (
	// NoPodSelected means that the subject of the policy selects no pod.
	NoPodSelected Reason = "NoPodSelected"
	// NoPeerSelected means that a peer selects no pod.
	NoPeerSelected Reason = "NoPeerSelected"
	// PeerInOtherVPC means that a peer selects pods of other VPCs alone.
	PeerInOtherVPC Reason = "PeerInOtherVPC"
	// NoPortNamed means that no destination has a port with the name of a rule.
	NoPortNamed Reason = "NoPortNamed"
	// RangeInVPC means that a range is a part of the policy's own VPC, where selectors are meant.
	RangeInVPC Reason = "RangeInVPC"
)

// Finding is a part of a policy that has no effect, or probably not the wanted one.
type Finding struct {
	Reason Reason
	// Field of the object, such as "spec.ingress[0]".
	Field string
	// Text says what is wrong and how to mend it.
	Text string
}

// Pod is an interface of a pod, or a set of pods with the same properties.
type Pod struct {
	*rules.Identity
	// Shared is true for a backend of a shared service, which is a peer in every VPC.
	Shared bool
}

// World has the objects that policies are compared with.
type World struct {
	Pods []Pod
	// Ranges are the ranges of each VPC.
	Ranges map[string][]netip.Prefix
	// Namespaces are the namespaces whose pods are in Pods; nil means all. A selection of further
	// namespaces is not judged.
	Namespaces []string
}

// Find returns the findings of a policy, in the order of its fields.
func (w *World) Find(p *policy.Policy) []Finding {
	if !w.Covers(&p.Subject) {
		return nil
	}
	f := finder{World: w, policy: p}
	for _, pod := range w.Pods {
		if rules.Applies(p, pod.Identity) {
			f.subjects = append(f.subjects, pod.Identity)
		}
	}
	if len(f.subjects) == 0 {
		f.add(NoPodSelected, subjectField(p), "%s, so the policy has no effect", w.nothing(&p.Subject))
		return f.findings
	}
	for _, direction := range []policy.Direction{policy.Ingress, policy.Egress} {
		for i := range p.Rules[direction] {
			f.rule(direction, &p.Rules[direction][i], fmt.Sprintf("spec.%s[%d]", direction, i))
		}
	}
	return f.findings
}

// subjectField returns the field that selects the pods of a policy.
func subjectField(p *policy.Policy) string {
	if p.Kind == policy.ClusterNetworkPolicy {
		return "spec.subject"
	}
	return "spec.podSelector"
}

// Covers reports whether the world has all pods that a selection may select.
func (w *World) Covers(pods *policy.Pods) bool {
	return w.Namespaces == nil || pods.Namespace != "" && slices.Contains(w.Namespaces, pods.Namespace)
}

// finder collects the findings of a policy.
type finder struct {
	*World
	policy   *policy.Policy
	subjects []*rules.Identity
	findings []Finding
}

func (f *finder) add(reason Reason, field, format string, args ...any) {
	finding := Finding{Reason: reason, Field: field, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(f.findings, finding) {
		f.findings = append(f.findings, finding)
	}
}

// rule adds the findings of a rule.
func (f *finder) rule(direction policy.Direction, rule *policy.Rule, field string) {
	peers, complete := f.peers(rule, field)
	for _, ports := range rule.Ports {
		switch {
		case ports.Name == "":
		case direction == policy.Ingress:
			f.port(&ports, f.subjects, "the policy selects", field)
		case complete:
			f.port(&ports, peers, "the rule selects", field)
		}
	}
}

// peers adds the findings of the peers of a rule, and returns the pods that they match. The list is
// complete if the world has all of them.
func (f *finder) peers(rule *policy.Rule, field string) (found []*rules.Identity, complete bool) {
	if rule.Everyone {
		return f.reachable(&policy.Pods{}), f.Namespaces == nil
	}
	complete = true
	for _, peer := range rule.Peers {
		if peer.Block != nil {
			f.block(peer.Block.CIDR, field)
			continue
		}
		if !f.Covers(peer.Pods) {
			complete = false
			continue
		}
		pods := f.reachable(peer.Pods)
		if len(pods) == 0 {
			f.peer(peer.Pods, field)
		}
		found = append(found, pods...)
	}
	return found, complete
}

// reachable returns the pods of a selection that are peers of a subject: in its VPC or network, or
// behind a shared service.
func (f *finder) reachable(pods *policy.Pods) (found []*rules.Identity) {
	for _, pod := range f.Pods {
		beside := func(one *rules.Identity) bool { return one.VPC == pod.VPC && one.Network == pod.Network }
		if rules.Includes(pods, pod.Identity) && (pod.Shared || slices.ContainsFunc(f.subjects, beside)) {
			found = append(found, pod.Identity)
		}
	}
	return found
}

// peer adds the finding of a peer that matches no pod.
func (f *finder) peer(pods *policy.Pods, field string) {
	for _, pod := range f.Pods {
		if rules.Includes(pods, pod.Identity) && pod.VPC != "" && f.subjects[0].VPC != "" {
			f.add(PeerInOtherVPC, field, "the pods with %s are in VPC %s, and the pods of the policy in VPC %s: no policy opens a way "+
				"between VPCs; share a Service with a SharedService instead", podsText(pods), pod.VPC, f.subjects[0].VPC)
			return
		}
	}
	f.add(NoPeerSelected, field, "%s, so this peer matches nothing", f.nothing(pods))
}

// port adds a finding if no destination has a port with a name.
func (f *finder) port(ports *policy.Ports, destinations []*rules.Identity, who, field string) {
	var names []string
	for _, pod := range destinations {
		for _, one := range pod.Ports {
			if one.Name == ports.Name && (ports.Protocol == "" || ports.Protocol == one.Protocol) {
				return
			}
			names = append(names, one.Name+"/"+one.Protocol)
		}
	}
	if len(destinations) == 0 {
		return // the finding of the peer tells it
	}
	has := "they name no ports"
	if slices.Sort(names); len(names) > 0 {
		has = "they name " + quote.Names(slices.Compact(names))
	}
	wanted := ports.Name
	if ports.Protocol != "" {
		wanted += "/" + ports.Protocol
	}
	f.add(NoPortNamed, field, "no pod that %s has a port with the name %s (%s), so this port matches nothing", who, wanted, has)
}

// block adds a finding for a range within a VPC of the subjects.
func (f *finder) block(cidr netip.Prefix, field string) {
	for _, pod := range f.subjects {
		for _, whole := range f.Ranges[pod.VPC] {
			if pod.VPC != "" && whole.Bits() <= cidr.Bits() && whole.Contains(cidr.Addr()) {
				f.add(RangeInVPC, field, "%s is within VPC %s (%s), where pods get other addresses when they are created again: "+
					"select pods by their labels, unless they ask for fixed addresses", cidr, pod.VPC, whole)
				return
			}
		}
	}
}

// nothing says why a selection matches no pod: the first requirement that no pod meets.
func (w *World) nothing(pods *policy.Pods) string {
	left := w.Pods
	keep := func(part *policy.Pods) bool {
		left = slices.DeleteFunc(slices.Clone(left), func(pod Pod) bool { return !rules.Includes(part, pod.Identity) })
		return len(left) > 0
	}
	where := ""
	if pods.Namespace != "" {
		where = " in namespace " + pods.Namespace
		if !keep(&policy.Pods{Namespace: pods.Namespace}) {
			return "no pod is" + where
		}
	}
	for i := range pods.Namespaces {
		if !keep(&policy.Pods{Namespaces: pods.Namespaces[i : i+1]}) {
			return fmt.Sprintf("no namespace with pods has %s", selectorText(pods.Namespaces))
		}
	}
	for i := range pods.Pods {
		before := left
		if !keep(&policy.Pods{Pods: pods.Pods[i : i+1]}) {
			return fmt.Sprintf("no pod%s has %s%s", where, selectorText(pods.Pods), values(before, pods.Pods[i].Key))
		}
	}
	return "no pod" + where + " has an interface that the policy is for"
}

// values lists the values that a label has, for a selector whose value is misspelled.
func values(pods []Pod, key string) string {
	var found []string
	for _, pod := range pods {
		if value, ok := pod.Labels[key]; ok {
			found = append(found, value)
		}
	}
	if slices.Sort(found); len(found) == 0 {
		return ""
	}
	return fmt.Sprintf(" (the values of %s are: %s)", key, quote.Names(slices.Compact(found)))
}
