// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	rules "github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// end is an end of a packet.
type end struct {
	Party
	// pod is nil for an end that policies do not select.
	pod *rules.Identity
	uid string
	// ips has the addresses that are known.
	ips []netip.Addr
	// nodeIPs are the addresses of the pod's node.
	nodeIPs []netip.Addr
	// service is the Service that a pod is a backend of; virtual are its ClusterIPs.
	service *corev1.Service
	virtual []netip.Addr
}

// NotFoundError reports that an object which the question names does not exist.
type NotFoundError struct {
	Ref   Ref
	Files bool
}

// Error names the object.
func (e *NotFoundError) Error() string {
	if !e.Files {
		return "the cluster has no " + e.Ref.String()
	}
	if e.Ref.Sort == Pod {
		return fmt.Sprintf("the files have no %s: a pod of a controller is named by it, such as deploy/%s", e.Ref, e.Ref.Name)
	}
	return "the files have no " + e.Ref.String()
}

// pod returns a pod's interface as an end.
func (o *Objects) pod(name Name, q *Question) (*end, error) {
	pod := o.Pods[name]
	if pod == nil {
		return nil, &NotFoundError{Ref: Ref{Sort: Pod, Name: name}, Files: o.FromFiles}
	}
	e := &end{Party: Party{Kind: string(Pod), Name: name.String()}, uid: string(pod.UID)}
	if e.uid == "" {
		e.uid = name.String()
	}
	e.nodeIPs = parseIPs(pod.Status.HostIP)
	for _, one := range pod.Status.HostIPs {
		e.nodeIPs = append(e.nodeIPs, parseIPs(one.IP)...)
	}
	if pod.Spec.HostNetwork {
		return o.onNode(e, q)
	}
	e.pod = o.identity(name.Namespace, pod.Labels, &pod.Spec)
	if q.Network != "" {
		return o.outside(e, pod, q.Network)
	}
	return o.inVPC(e, pod, q.VPC)
}

// onNode returns a pod on the network of its node.
func (o *Objects) onNode(e *end, q *Question) (*end, error) {
	if q.Network != "" {
		return nil, fmt.Errorf("pod %s is on the network of its node: it has no interface in network %s", e.Name, q.Network)
	}
	e.HostNetwork, e.uid, e.ips = true, "", e.nodeIPs
	return e, nil
}

// inVPC adds VPC and addresses: by the Addresses of the pod or, without a cluster, by Networks.
func (o *Objects) inVPC(e *end, pod *corev1.Pod, vpc string) (*end, error) {
	for _, one := range o.addressesOf(pod, vpc) {
		e.VPC = one.Spec.VPC
		e.ips = append(e.ips, parseIPs(one.Spec.IP)...)
	}
	if e.VPC == "" && !o.FromFiles {
		if vpc != "" {
			return nil, fmt.Errorf("pod %s has no Address in VPC %s", e.Name, vpc)
		}
		return nil, fmt.Errorf("pod %s has no Address in a VPC: it waits for one, has ended, or has no interface in a VPC",
			e.Name)
	}
	if e.VPC == "" {
		e.ips = podIPs(pod)
		var err error
		if e.VPC, err = o.vpcOf(pod.Namespace, pod.Labels[arktosv1.NetworkLabel], vpc); err != nil {
			return nil, fmt.Errorf("pod %s: %w", e.Name, err)
		}
	}
	e.pod.VPC = e.VPC
	return e, nil
}

// outside adds the network and the addresses of an interface outside of VPCs.
func (o *Objects) outside(e *end, pod *corev1.Pod, network string) (*end, error) {
	e.pod.Network, e.Network = network, network
	found := false
	for _, one := range networksOf(pod) {
		if one.Name == network {
			found, e.ips = true, append(e.ips, parseIPs(one.IPs...)...)
		}
	}
	if !found && !o.FromFiles {
		return nil, fmt.Errorf("pod %s has no interface in network %s by its annotation %s",
			e.Name, network, annotations.NetworkStatusKey)
	}
	return e, nil
}

// reported is an interface in the annotation with the status of a pod's networks.
type reported struct {
	Name string   `json:"name"`
	IPs  []string `json:"ips"`
}

// networksOf reads the annotation. A text that can't be read names no network.
func networksOf(pod *corev1.Pod) (list []reported) {
	if json.Unmarshal([]byte(pod.Annotations[annotations.NetworkStatusKey]), &list) != nil {
		return nil
	}
	for i := range list {
		if !strings.Contains(list[i].Name, "/") {
			list[i].Name = pod.Namespace + "/" + list[i].Name
		}
	}
	return list
}

// vpcOf returns the VPC of pods without Addresses: the one that is asked for, else by Networks.
func (o *Objects) vpcOf(namespace, label, asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	if len(o.Networks) == 0 {
		return o.DefaultVPC, nil
	}
	s, err := o.tenants(namespace)
	if err != nil {
		return "", err
	}
	name := label
	if name == "" {
		name = arktosv1.DefaultNetwork
	}
	vpc := ""
	s.View(func(tx store.ReadTx) {
		network := tenancy.Find(tx, tenancy.OfNamespace(tx, namespace), namespace, name)
		switch {
		case network != nil && tenancy.Served(network.Type):
			vpc = network.VPC
		case network == nil && label == "":
			vpc = o.DefaultVPC
		default:
			err = fmt.Errorf("no Network that Alioth serves has the name %s of its label %s", name, arktosv1.NetworkLabel)
		}
	})
	return vpc, err
}

// tenants returns a store with the Networks and their namespaces, and with the namespace.
func (o *Objects) tenants(namespace string) (*store.Store, error) {
	s, err := store.New()
	if err != nil {
		return nil, err
	}
	names := []string{namespace}
	for _, network := range o.Networks {
		names = append(names, network.Namespace)
	}
	return s, s.Update(func(tx store.Tx) error {
		for _, name := range names {
			row, err := core.Namespace.Convert(&corev1.Namespace{ObjectMeta: metaOf(name, o.labelsOf(name))})
			if err != nil {
				return err
			}
			if err := store.PutNamespace(tx, row); err != nil {
				return err
			}
		}
		for _, network := range o.Networks {
			row, err := vpcs.Network.Convert(network)
			if err != nil {
				return err
			}
			if err := store.PutNetwork(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// template returns a pod of a controller's template as an end. Two ends of one template are two
// pods.
func (o *Objects) template(ref Ref, q *Question, uid string) (*end, error) {
	in := o.Templates[ref]
	switch {
	case !o.FromFiles:
		return nil, fmt.Errorf("%s: in a cluster, name a pod", ref)
	case in == nil:
		return nil, &NotFoundError{Ref: ref, Files: true}
	}
	pod := &corev1.Pod{ObjectMeta: in.ObjectMeta, Spec: in.Spec}
	pod.Namespace = ref.Name.Namespace
	e := &end{Party: Party{Kind: string(ref.Sort), Name: ref.Name.String()}, uid: uid}
	if in.Spec.HostNetwork {
		return o.onNode(e, q)
	}
	e.pod = o.identity(pod.Namespace, in.Labels, &in.Spec)
	if q.Network != "" {
		return o.outside(e, pod, q.Network)
	}
	return o.inVPC(e, pod, q.VPC)
}

// address returns the holder of an IP in a VPC: a pod, a Service, or an end outside.
func (o *Objects) address(ip netip.Addr, vpc string, q *Question) (*end, *corev1.Service, error) {
	if q.Network == "" {
		pod, service := o.holder(ip, vpc)
		if service != nil {
			return nil, service, nil
		}
		if pod != (Name{}) {
			asked := *q
			asked.VPC = vpc
			e, err := o.pod(pod, &asked)
			return e, nil, err
		}
	}
	for _, pod := range sortedPods(o.Pods) {
		if q.Network != "" && slices.ContainsFunc(networksOf(pod), func(one reported) bool {
			return one.Name == q.Network && slices.Contains(parseIPs(one.IPs...), ip)
		}) {
			e, err := o.pod(Name{pod.Namespace, pod.Name}, q)
			return e, nil, err
		}
	}
	return &end{Party: Party{Kind: string(IP), Name: ip.String()}, ips: []netip.Addr{ip}}, nil, nil
}

// holder returns the pod or Service that has an IP in a VPC.
func (o *Objects) holder(ip netip.Addr, vpc string) (pod Name, service *corev1.Service) {
	for _, one := range o.Addresses {
		holder := one.Spec.Holder
		if one.Spec.VPC != vpc || !slices.Contains(parseIPs(one.Spec.IP), ip) {
			continue
		}
		name := Name{holder.Namespace, holder.Name}
		switch holder.Kind {
		case v1alpha1.HolderPod:
			return name, nil
		case v1alpha1.HolderService:
			return Name{}, o.Services[name]
		}
	}
	if o.FromFiles {
		for _, one := range sortedPods(o.Pods) {
			at, err := o.vpcOf(one.Namespace, one.Labels[arktosv1.NetworkLabel], "")
			if err == nil && at == vpc && !one.Spec.HostNetwork && slices.Contains(podIPs(one), ip) {
				return Name{one.Namespace, one.Name}, nil
			}
		}
	}
	for _, one := range o.Services {
		if slices.Contains(VirtualIPs(one), ip) {
			return Name{}, one
		}
	}
	return Name{}, nil
}
