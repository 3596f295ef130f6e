// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store/memory"
)

// Service is the row of a Service. Key: (Namespace, Name).
type Service struct {
	Meta
	Namespace, Name string
	// Network is the value of the network label, or "".
	Network string
	// OtherProxy reports that the Service is left to a different proxy. It then has no
	// ClusterIPs and no ExternalIPs here, and is no load balancer.
	OtherProxy bool
	// ClusterIPs are none for a headless Service and for one of type ExternalName.
	ClusterIPs []netip.Addr
	Ports      []ServicePort
	// Selectorless reports that the Service has no selector, so that users write its
	// EndpointSlices.
	Selectorless bool
	// Affinity is how long a client's new connections go to the backend of its last
	// one; 0: no affinity.
	Affinity time.Duration
	// NodeLocal keeps connections on the client's node.
	NodeLocal bool
	// ExternalNodeLocal keeps connections from outside of the cluster on the node that
	// receives them, and preserves their source address.
	ExternalNodeLocal bool
	// HealthCheckNodePort is the port at which a node reports its number of backends;
	// 0: none.
	HealthCheckNodePort uint16
	// ExternalIPs are those of the spec: see services.ExternalIPs.
	ExternalIPs []netip.Addr
	// LoadBalancer is the requested kind of load balancer: LoadBalancerVPC,
	// LoadBalancerExternal, or an invalid text; "" if the Service is not of Alioth's
	// class.
	LoadBalancer string
	// AskedIPs is the text with the requested addresses of the load balancer,
	// AskedPool the name of the requested ExternalPool; "" for any.
	AskedIPs, AskedPool string
	// SourceRanges are the only clients of a load balancer's addresses; nil: all.
	SourceRanges []netip.Prefix
	// Endpoints is what the annotations of the Service select for its endpoints; nil
	// without such annotations.
	Endpoints *EndpointSelection
}

// EndpointSelection selects interfaces of pods in the namespace of a Service.
type EndpointSelection struct {
	// Selector has the labels that a pod needs, one at least.
	Selector map[string]string
	// Networks are those whose interfaces count, one at least.
	Networks []NetworkName
	// Problem describes annotations that can't be used, "" for none. There are no labels
	// and networks then.
	Problem string
}

// Selects reports whether a pod with these labels has all of the selector.
func (s *EndpointSelection) Selects(labels map[string]string) bool {
	for key, value := range s.Selector {
		if has, set := labels[key]; !set || has != value {
			return false
		}
	}
	return len(s.Selector) > 0
}

// NetworkName names a network to a Service, with the fields of annotations.NetworkName.
type NetworkName struct{ Kind, Namespace, Name string }

// String returns kind/name or kind/namespace/name.
func (n NetworkName) String() string {
	if n.Namespace == "" {
		return n.Kind + "/" + n.Name
	}
	return n.Kind + "/" + n.Namespace + "/" + n.Name
}

// The kinds of addresses that a load balancer may request, spelled as in the API: in its
// VPC, or outside.
const (
	LoadBalancerVPC      = "VPC"
	LoadBalancerExternal = "External"
)

// ServicePort is one port of a Service.
type ServicePort struct {
	Name string
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	Port     uint16
	// NodePort of a Service's port; 0 for none, and in a slice.
	NodePort uint16
}

var services = memory.Define(memory.Table[Service]{
	Name: "service",
	Key:  func(s *Service) []byte { return memory.TextKey(s.Namespace, s.Name) },
	Meta: func(s *Service) *Meta { return &s.Meta },
	Indexes: map[string]func(*Service) []byte{
		byNetwork: func(s *Service) []byte { return memory.TextKey(s.Namespace, s.Network) },
		withExternalIPs: func(s *Service) []byte {
			if len(s.ExternalIPs) == 0 {
				return nil
			}
			return memory.TextKey(s.Namespace, s.Name)
		},
		byEndpointLabel: func(s *Service) []byte {
			if s.Endpoints == nil || len(s.Endpoints.Selector) == 0 {
				return nil
			}
			key := slices.Min(slices.Collect(maps.Keys(s.Endpoints.Selector)))
			return memory.TextKey(s.Namespace, key, s.Endpoints.Selector[key])
		},
		byEndpointAge: func(s *Service) []byte {
			if !s.SelectsEndpoints() {
				return nil
			}
			key := binary.BigEndian.AppendUint64(memory.TextKey(s.Namespace), uint64(max(s.Created.Unix(), 0)))
			return append(key, memory.TextKey(s.Name)...)
		},
	},
})

const (
	withExternalIPs = "externalips"
	byEndpointLabel = "endpointlabel"
	byEndpointAge   = "endpointage"
)

// AsHolder returns the Service as the holder of its addresses.
func (s *Service) AsHolder() Holder {
	return Holder{Kind: HolderService, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// ByBackendsHere reports whether nodes without a backend of the Service do not serve
// packets from outside: the packets must not be sent to another node, or they can't,
// because the Service has no node port.
func (s *Service) ByBackendsHere() bool {
	return s.ExternalNodeLocal || slices.ContainsFunc(s.Ports, func(port ServicePort) bool { return port.NodePort == 0 })
}

// GetService returns a Service, or nil.
func GetService(tx ReadTx, namespace, name string) *Service {
	return services.Get(tx, memory.TextKey(namespace, name))
}

// ServicesByNetwork returns the Services of a namespace with that network
// label, by name. The empty label means Services without one.
func ServicesByNetwork(tx ReadTx, namespace, label string) []*Service {
	return services.List(tx, byNetwork, memory.TextKey(namespace, label))
}

// ServicesByNamespace returns the Services of a namespace by name.
func ServicesByNamespace(tx ReadTx, namespace string) []*Service {
	return services.List(tx, memory.Primary, memory.TextKey(namespace))
}

// ServicesWithExternalIPs returns the Services that name external IPs, by namespace
// and name.
func ServicesWithExternalIPs(tx ReadTx) []*Service {
	return services.List(tx, withExternalIPs, []byte{})
}

// ServicesSelecting yields the Services of a namespace whose Endpoints select a pod with
// these labels. Each Service is indexed by one of its labels, so that no others are read
// than those with a label of the pod.
func ServicesSelecting(tx ReadTx, namespace string, labels map[string]string) iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for key, value := range labels {
			for row := range services.Seq(tx, byEndpointLabel, memory.TextKey(namespace, key, value)) {
				if row.Endpoints.Selects(labels) && !yield(row) {
					return
				}
			}
		}
	}
}

// SelectsEndpoints reports whether the Service has annotations for endpoints that can be used.
func (s *Service) SelectsEndpoints() bool {
	return s.Endpoints != nil && len(s.Endpoints.Selector) > 0 && s.Selectorless
}

// SelectingServices yields the Services of a namespace that select endpoints, the oldest
// first.
func SelectingServices(tx ReadTx, namespace string) iter.Seq[*Service] {
	return services.Seq(tx, byEndpointAge, memory.TextKey(namespace))
}

// ServicesByAge orders Services by creation, then namespace and name.
func ServicesByAge(a, b *Service) int { return services.ByAge(a, b) }

// AllServices yields all Services by namespace and name.
func AllServices(tx ReadTx) iter.Seq[*Service] { return services.All(tx) }

// ListServices returns all Services by namespace and name.
func ListServices(tx ReadTx) []*Service {
	return slices.Collect(services.All(tx))
}

// PutService inserts or replaces a Service.
func PutService(tx Tx, row *Service) error {
	_, err := services.Put(tx, row)
	return err
}

// DeleteService removes a Service if it has that UID, and reports whether it
// did.
func DeleteService(tx Tx, namespace, name, uid string) bool {
	return services.Remove(tx, memory.TextKey(namespace, name), uid) != nil
}

// SharedService is the row of a SharedService object. Key: Name.
type SharedService struct {
	Meta
	Name string
	// ServiceNamespace and ServiceName name the Service, which need not exist.
	ServiceNamespace, ServiceName string
	Ready                         bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

var sharedServices = memory.Define(memory.Table[SharedService]{
	Name: "sharedservice",
	Key:  func(s *SharedService) []byte { return memory.TextKey(s.Name) },
	Meta: func(s *SharedService) *Meta { return &s.Meta },
})

// GetSharedService returns the SharedService object of that name, or nil.
func GetSharedService(tx ReadTx, name string) *SharedService {
	return sharedServices.Get(tx, memory.TextKey(name))
}

// ListSharedServices returns all SharedService objects by name.
func ListSharedServices(tx ReadTx) []*SharedService {
	return slices.Collect(sharedServices.All(tx))
}

// PutSharedService inserts or replaces a SharedService.
func PutSharedService(tx Tx, row *SharedService) error {
	_, err := sharedServices.Put(tx, row)
	return err
}

// DeleteSharedService removes a SharedService if it has that UID, and reports
// whether it did.
func DeleteSharedService(tx Tx, name, uid string) bool {
	return sharedServices.Remove(tx, memory.TextKey(name), uid) != nil
}
