// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds/policies"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
)

// Objects are the objects that answers depend on.
type Objects struct {
	Namespaces map[string]*corev1.Namespace
	Pods       map[Name]*corev1.Pod
	// Templates are the templates of controllers.
	Templates map[Ref]*corev1.PodTemplateSpec
	Services  map[Name]*corev1.Service
	Slices    []*discoveryv1.EndpointSlice
	Addresses []*v1alpha1.Address
	// Networks tell the VPCs of pods that have no Address.
	Networks []*arktosv1.Network
	// Ranges are the ranges of VPCs, by name.
	Ranges map[string][]netip.Prefix
	// Shared are the Services of the default VPC that every VPC reaches.
	Shared []Name
	// DefaultVPC is the VPC of pods without a Network.
	DefaultVPC string
	// FromFiles is true for objects that no cluster has: pods need no Address, and Services no
	// EndpointSlice.
	FromFiles bool

	policies map[policy.Key]*policy.Policy
	index    *rules.Index
	problems []Problem
	// partial is true once a policy was left out that can't be read.
	partial bool
	extra   []string
}

// New returns Objects without any object.
func New() *Objects {
	return &Objects{
		Namespaces: map[string]*corev1.Namespace{}, Pods: map[Name]*corev1.Pod{},
		Templates: map[Ref]*corev1.PodTemplateSpec{}, Services: map[Name]*corev1.Service{},
		DefaultVPC: v1alpha1.DefaultVPCName,
		Ranges:     map[string][]netip.Prefix{},
		policies:   map[policy.Key]*policy.Policy{}, index: rules.NewIndex(),
	}
}

// Problem is a part of a policy that can't be enforced.
type Problem struct {
	Policy  string `json:"policy"`
	Problem string `json:"problem"`
}

// AddNetworkPolicy adds a NetworkPolicy. A policy that can't be read becomes a problem.
func (o *Objects) AddNetworkPolicy(in *networkingv1.NetworkPolicy) {
	row, err := policies.OfNetworkPolicy(in)
	o.addPolicy(policy.Key{Kind: policy.NetworkPolicy, Namespace: in.Namespace, Name: in.Name}, row, err)
}

// AddMultiNetworkPolicy adds a MultiNetworkPolicy, as AddNetworkPolicy does.
func (o *Objects) AddMultiNetworkPolicy(in *policies.MultiNetworkPolicy) {
	row, err := policies.OfMultiNetworkPolicy(in)
	o.addPolicy(policy.Key{Kind: policy.MultiNetworkPolicy, Namespace: in.Namespace, Name: in.Name}, row, err)
}

// AddClusterNetworkPolicy adds a ClusterNetworkPolicy, as AddNetworkPolicy does.
func (o *Objects) AddClusterNetworkPolicy(in *v1alpha2.ClusterNetworkPolicy) {
	row, err := policies.OfClusterNetworkPolicy(in)
	o.addPolicy(policy.Key{Kind: policy.ClusterNetworkPolicy, Name: in.Name}, row, err)
}

// AddProblem adds a problem with a policy that no row describes.
func (o *Objects) AddProblem(of, problem string) {
	o.problems = append(o.problems, Problem{Policy: of, Problem: problem})
}

func (o *Objects) addPolicy(key policy.Key, row *policy.Policy, err error) {
	if err != nil {
		o.partial = true
		o.AddProblem(nameOf(key), err.Error()+"; no part of the policy counts")
		return
	}
	o.policies[key] = row
	o.index.Put(row)
	for _, problem := range row.Problems {
		o.AddProblem(nameOf(key), problem)
	}
}

// nameOf names a policy with its kind.
func nameOf(key policy.Key) string {
	if key.Namespace == "" {
		return string(key.Kind) + " " + key.Name
	}
	return string(key.Kind) + " " + key.Namespace + "/" + key.Name
}

// labelsOf returns the labels of a namespace, with the label that the API server gives each one.
func (o *Objects) labelsOf(namespace string) map[string]string {
	labels := map[string]string{}
	if object := o.Namespaces[namespace]; object != nil {
		maps.Copy(labels, object.Labels)
	}
	labels[corev1.LabelMetadataName] = namespace
	return labels
}

// identity returns what policies select a pod by. The caller adds VPC or network.
func (o *Objects) identity(namespace string, labels map[string]string, spec *corev1.PodSpec) *rules.Identity {
	id := &rules.Identity{Namespace: namespace, NamespaceLabels: o.labelsOf(namespace), Labels: labels}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.Name == "" || port.ContainerPort < 1 {
					continue
				}
				id.Ports = append(id.Ports, rules.Port{
					Name: port.Name, Protocol: string(cmp.Or(port.Protocol, corev1.ProtocolTCP)), Port: uint16(port.ContainerPort),
				})
			}
		}
	}
	return id
}

// addressesOf returns the Addresses of a pod's interface in a VPC, or of its first interface in
// VPCs if vpc is "".
func (o *Objects) addressesOf(pod *corev1.Pod, vpc string) (found []*v1alpha1.Address) {
	held := v1alpha1.AddressHolder{
		Kind: v1alpha1.HolderPod, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
	}
	for _, one := range o.Addresses {
		if one.Spec.Holder == held && one.Spec.VPC != "" && (vpc == "" || one.Spec.VPC == vpc) {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := found[0].Spec.Attachment
	for _, one := range found {
		if len(one.Spec.Interfaces) > 0 || one.Spec.Attachment == v1alpha1.PodAttachment {
			first = one.Spec.Attachment
			break
		}
	}
	return slices.DeleteFunc(found, func(one *v1alpha1.Address) bool { return one.Spec.Attachment != first })
}

func parseIPs(texts ...string) (ips []netip.Addr) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// podIPs returns the addresses of a pod's status.
func podIPs(pod *corev1.Pod) []netip.Addr {
	texts := []string{pod.Status.PodIP}
	if len(pod.Status.PodIPs) > 0 {
		texts = nil
	}
	for _, one := range pod.Status.PodIPs {
		texts = append(texts, one.IP)
	}
	return parseIPs(texts...)
}

// AddNote adds a note to the answer.
func (o *Objects) AddNote(text string) { o.extra = append(o.extra, text) }

// NamespacesOfPods returns the namespaces of all pods, sorted.
func (o *Objects) NamespacesOfPods() []string {
	var names []string
	for name := range o.Pods {
		names = append(names, name.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// VPCOf returns the VPC of the addresses of a question: the one that it names, else the VPC
// of its first end that is a pod, else the default VPC.
func (o *Objects) VPCOf(q *Question) string {
	if q.VPC != "" {
		return q.VPC
	}
	for _, ref := range []Ref{q.From, q.To} {
		if ref.Sort != Pod {
			continue
		}
		if e, err := o.pod(ref.Name, q); err == nil && e.VPC != "" {
			return e.VPC
		}
	}
	return o.DefaultVPC
}
