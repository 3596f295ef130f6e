// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/lint"
)

// Review has the findings about policies.
type Review struct {
	// Policies is the number of policies that were reviewed.
	Policies int       `json:"policies"`
	Findings []Finding `json:"findings"`
	Problems []Problem `json:"problems,omitempty"`
	// Partial is true if a policy can't be read.
	Partial bool     `json:"partial,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Finding is a part of a policy that has no effect, or probably not the wanted one.
type Finding struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
	Field  string `json:"field"`
	Text   string `json:"text"`
}

// Lint reviews all policies but MultiNetworkPolicies. A policy that may select pods of other
// namespaces than the given ones is compared with none of them; without any, all pods are there.
func (o *Objects) Lint(namespaces []string) *Review {
	w, notes, unknown := o.world()
	w.Namespaces = slices.DeleteFunc(namespaces, func(name string) bool { return slices.Contains(unknown, name) })
	r := &Review{Findings: []Finding{}, Problems: o.problems, Partial: o.partial, Notes: append(notes, o.extra...)}
	rows := slices.SortedFunc(maps.Values(o.policies), func(a, b *policy.Policy) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, row := range rows {
		if row.Kind == policy.MultiNetworkPolicy {
			continue
		}
		if !w.Covers(&row.Subject) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is not reviewed: it may select pods that were not read", nameOf(row.Key)))
			continue
		}
		r.Policies++
		for _, one := range w.Find(row) {
			r.Findings = append(r.Findings, Finding{
				Policy: nameOf(row.Key), Reason: string(one.Reason), Field: one.Field, Text: one.Text,
			})
		}
	}
	return r
}

// NamespacesOfFiles returns the namespaces that have pods or templates, sorted; never nil.
func (o *Objects) NamespacesOfFiles() []string {
	names := append([]string{}, o.NamespacesOfPods()...)
	for ref := range o.Templates {
		names = append(names, ref.Name.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// world returns what policies are compared with, with notes about pods whose VPC is not known, and
// their namespaces.
func (o *Objects) world() (w *lint.World, notes, unknown []string) {
	w = &lint.World{Ranges: o.Ranges}
	held := o.vpcsOfPods()
	add := func(name Name, pod *corev1.Pod) {
		if pod.Spec.HostNetwork {
			return
		}
		vpcs := held[Name{pod.Namespace, string(pod.UID)}]
		if len(vpcs) == 0 && o.FromFiles {
			vpc, err := o.vpcOf(pod.Namespace, pod.Labels[arktosv1.NetworkLabel], "")
			if err != nil {
				notes, unknown = append(notes, fmt.Sprintf("%s: %v", name, err)), append(unknown, pod.Namespace)
				return
			}
			vpcs = []string{vpc}
		}
		for _, vpc := range vpcs {
			id := o.identity(pod.Namespace, pod.Labels, &pod.Spec)
			id.VPC = vpc
			w.Pods = append(w.Pods, lint.Pod{Identity: id, Shared: o.behindShared(id)})
		}
	}
	for _, pod := range sortedPods(o.Pods) {
		add(Name{pod.Namespace, pod.Name}, pod)
	}
	for ref, template := range o.Templates {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace = ref.Name.Namespace
		add(ref.Name, pod)
	}
	slices.Sort(notes)
	return w, notes, unknown
}

// vpcsOfPods returns the VPCs of each pod by its namespace and UID.
func (o *Objects) vpcsOfPods() map[Name][]string {
	held := map[Name][]string{}
	for _, one := range o.Addresses {
		key := Name{one.Spec.Holder.Namespace, one.Spec.Holder.UID}
		if one.Spec.Holder.Kind == v1alpha1.HolderPod && one.Spec.VPC != "" && !slices.Contains(held[key], one.Spec.VPC) {
			held[key] = append(held[key], one.Spec.VPC)
		}
	}
	return held
}

// VPCs returns the VPCs of the pods' Addresses, sorted.
func (o *Objects) VPCs() (names []string) {
	for _, vpcs := range o.vpcsOfPods() {
		names = append(names, vpcs...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// behindShared reports whether pods are backends of a shared service.
func (o *Objects) behindShared(id *rules.Identity) bool {
	if id.VPC != o.DefaultVPC {
		return false
	}
	for _, name := range o.Shared {
		service := o.Services[name]
		if service != nil && name.Namespace == id.Namespace && len(service.Spec.Selector) > 0 &&
			labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(id.Labels)) {
			return true
		}
	}
	return false
}

// AddVPC adds the ranges of a VPC. A range that can't be read is left out.
func (o *Objects) AddVPC(in *v1alpha1.VPC) {
	for _, text := range in.Spec.CIDRs {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			o.Ranges[in.Name] = append(o.Ranges[in.Name], cidr.Masked())
		}
	}
}
