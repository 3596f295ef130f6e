// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/store/memory"
)

// Pod is the row of a Pod object that is not on the host network. Key: UID.
type Pod struct {
	Meta
	Namespace, Name string
	// Tenant that owns the namespace; kept up to date with Namespace rows.
	Tenant string
	// OwnerUID is the UID of the controller that made the pod, or "".
	OwnerUID string
	// StaticUID is the UID that the node gives a static pod, if this is its mirror; "" for other
	// pods. The runtime knows no other UID of a static pod.
	StaticUID string
	// Node that the pod is bound to, or "".
	Node string
	// Network is the value of the network label, or "".
	Network string
	// Labels of the pod. They are shared with the object, so they must not be changed.
	Labels map[string]string
	// NIC is the text of the nic annotation.
	NIC string
	// Interfaces is the text of the interfaces annotation of DANM. InterfacesProblem says why no
	// such annotation counts, "" normally.
	Interfaces, InterfacesProblem string
	// InterfacesKey is the key of that annotation, which two groups have, "" without one.
	InterfacesKey string
	// Selections is the text of the annotation k8s.v1.cni.cncf.io/networks.
	Selections string
	// DefaultSelection is the text of the annotation v1.multus-cni.io/default-network.
	DefaultSelection string
	// NetworkStatus is the text of the annotation k8s.v1.cni.cncf.io/network-status.
	NetworkStatus string
	// Attachments is the text of the attachments annotation.
	Attachments string
	// AnnotationBytes is the length of the keys and values of all annotations but the operator's.
	AnnotationBytes int
	// IPs are the IPs in the pod's status, written by the kubelet. They are kept until the pod
	// has allocation status, and are then the addresses of an earlier sandbox.
	IPs []netip.Addr
	// NetworkReady is true when the readiness annotation is "true".
	NetworkReady bool
	// Reason and Message of the operator's pod condition NetworkReady.
	Reason, Message string
	// Terminal is true when the phase is Succeeded or Failed.
	Terminal bool
	// NetworkProbes is true when the kubelet probes the pod over the network
	// (HTTP, TCP or gRPC), or runs an httpGet or tcpSocket hook.
	NetworkProbes bool
	// ProbeTimeout is the longest that such a probe may take; 0 without one.
	ProbeTimeout time.Duration
	// NetworkHooks is true when it runs an httpGet or tcpSocket life-cycle hook.
	NetworkHooks bool
	// ProbeHost is the host that a probe or hook names in the place of the pod's own
	// address, "" when none does.
	ProbeHost string
	// HostPorts are the node's ports that the pod requests, each once.
	HostPorts []HostPort
	// Devices are the numbers of devices that its containers request of extended
	// resources, by the name of the resource. It is nil without any.
	Devices map[string]int
	// Endpoint has the pod's values for an endpoint of a Service. It is nil on a node, which
	// follows EndpointSlices.
	Endpoint *PodEndpoint
}

// PodEndpoint has the pod's values for an endpoint of a Service, beside an address.
type PodEndpoint struct {
	// Ready is the status of the condition Ready.
	Ready bool
	// Hostname and Subdomain are the pod's names in DNS, "" without one.
	Hostname, Subdomain string
	// Ports are the ports with a name, in the order of the lookup in Kubernetes: the ports of
	// regular containers before the ports of sidecars.
	Ports []NamedPort
}

// NamedPort is a port of a container that a Service may refer to by name.
type NamedPort struct {
	Name string
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	// Port is the pod's, 1 to 65535.
	Port int32
}

// HostPort is a port of the node that is to lead to a port of a pod.
type HostPort struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	// HostIP is the address of the node; the zero value for all of them.
	HostIP netip.Addr
	// HostPort and Port are the node's and the pod's, 1 to 65535.
	HostPort, Port uint16
}

const (
	byName    = "name"
	byNetwork = "network"
)

var pods = memory.Define(memory.Table[Pod]{
	Name: "pod",
	Key:  func(p *Pod) []byte { return memory.TextKey(p.UID) },
	Meta: func(p *Pod) *Meta { return &p.Meta },
	Indexes: map[string]func(*Pod) []byte{
		byName:    func(p *Pod) []byte { return memory.TextKey(p.Namespace, p.Name) },
		byNode:    func(p *Pod) []byte { return memory.TextKey(p.Node) },
		byNetwork: func(p *Pod) []byte { return memory.TextKey(p.Tenant, p.Network) },
	},
})

// GetPod returns the pod of that UID, or nil.
func GetPod(tx ReadTx, uid string) *Pod {
	return pods.Get(tx, memory.TextKey(uid))
}

// AsHolder returns the pod as the holder of its addresses.
func (p *Pod) AsHolder() Holder {
	return Holder{Kind: HolderPod, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// Holds reports whether an address counts for the pod.
func (p *Pod) Holds(row *Address) bool { return row.CountsFor(p.AsHolder(), p.Node) }

// PodByName returns the newest pod of that name, or nil. An older one of the
// same name may still be in the store while its end has not been seen.
func PodByName(tx ReadTx, namespace, name string) *Pod {
	rows := pods.OldestFirst(tx, byName, memory.TextKey(namespace, name))
	if len(rows) == 0 {
		return nil
	}
	return rows[len(rows)-1]
}

// PodsByNamespace returns the pods of a namespace, by name, then UID.
func PodsByNamespace(tx ReadTx, namespace string) []*Pod {
	return pods.List(tx, byName, memory.TextKey(namespace))
}

// PodsByNetwork returns the tenant's pods with that network label, by UID. The
// empty label means pods without one.
func PodsByNetwork(tx ReadTx, tenant, label string) []*Pod {
	return pods.List(tx, byNetwork, memory.TextKey(tenant, label))
}

// PodsByNode returns the pods that are bound to a node, by UID. The empty name
// means pods that are not bound.
func PodsByNode(tx ReadTx, node string) []*Pod {
	return pods.List(tx, byNode, memory.TextKey(node))
}

// AllPods yields all pods by UID.
func AllPods(tx ReadTx) iter.Seq[*Pod] {
	return pods.All(tx)
}

// PutPod inserts or replaces a pod. Where the row of its Namespace is known,
// the tenant is taken from there.
func PutPod(tx Tx, row *Pod) error {
	if ns := GetNamespace(tx, row.Namespace); ns != nil && ns.Tenant != row.Tenant {
		follow := *row
		follow.Tenant = ns.Tenant
		row = &follow
	}
	_, err := pods.Put(tx, row)
	return err
}

// DeletePod removes the pod of that UID and reports whether it was there.
func DeletePod(tx Tx, uid string) bool {
	return pods.Remove(tx, memory.TextKey(uid), uid) != nil
}

// HostPod is the row of a Pod object on the network of its node. Alioth does not
// configure such pods. Key: UID.
type HostPod struct {
	Meta
	Namespace, Name string
	// Node that the pod is bound to, or "".
	Node string
	// Terminal is true when the phase is Succeeded or Failed.
	Terminal bool
}

var hostPods = memory.Define(memory.Table[HostPod]{
	Name: "hostpod",
	Key:  func(p *HostPod) []byte { return memory.TextKey(p.UID) },
	Meta: func(p *HostPod) *Meta { return &p.Meta },
})

// GetHostPod returns the pod on its node's network of that UID, or nil.
func GetHostPod(tx ReadTx, uid string) *HostPod {
	return hostPods.Get(tx, memory.TextKey(uid))
}

// HostPodByName returns a pod on its node's network of that name, or nil.
func HostPodByName(tx ReadTx, namespace, name string) *HostPod {
	for row := range hostPods.All(tx) {
		if row.Namespace == namespace && row.Name == name {
			return row
		}
	}
	return nil
}

// PutHostPod inserts or replaces a pod on its node's network.
func PutHostPod(tx Tx, row *HostPod) error {
	_, err := hostPods.Put(tx, row)
	return err
}

// DeleteHostPod removes the pod of that UID and reports whether it was there.
func DeleteHostPod(tx Tx, uid string) bool {
	return hostPods.Remove(tx, memory.TextKey(uid), uid) != nil
}
