// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/store/memory"
)

// Service is the row of a Service. Key: (Namespace, Name).
type Service struct {
	Meta
	Namespace, Name string
	// Network is the value of the network label, or "".
	Network string
	// OtherProxy reports that a different proxy serves the Service. It then has no ClusterIPs and
	// no ExternalIPs here, and is not a load balancer.
	OtherProxy bool
	// ClusterIPs is empty for a headless Service and for one of type ExternalName.
	ClusterIPs []netip.Addr
	Ports      []ServicePort
	// Selectorless reports that the Service has no selector, so that users write its
	// EndpointSlices.
	Selectorless bool
	// Affinity is the time that a client's new connections go to the backend of its last one; 0:
	// no affinity.
	Affinity time.Duration
	// NodeLocal keeps connections on the client's node.
	NodeLocal bool
	// ExternalNodeLocal keeps connections from outside of the cluster on the node that
	// receives them, and preserves their source address.
	ExternalNodeLocal bool
	// HealthCheckNodePort is the port at which a node reports its number of backends;
	// 0: none.
	HealthCheckNodePort uint16
	// ExternalIPs are the external IPs of the spec: see services.ExternalIPs.
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
	// Endpoints has the selection of endpoints in the Service's annotations; nil without such
	// annotations.
	Endpoints *EndpointSelection
}

// EndpointSelection selects interfaces of pods in the namespace of a Service.
type EndpointSelection struct {
	// Selector has the labels that a pod needs, one at least.
	Selector map[string]string
	// Networks are those whose interfaces count, one at least.
	Networks []NetworkName
	// Problem describes annotations that can't be used, "" without such annotations. With a
	// problem, the row has no labels and networks.
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
			return append(ageKey(memory.TextKey(s.Namespace), s), memory.TextKey(s.Name)...)
		},
	},
	Multiple: map[string]func(*Service) [][]byte{
		byOutside: func(s *Service) [][]byte {
			keys := NodePortKeys(s.Ports, s.HealthCheckNodePort)
			for _, ip := range s.ExternalIPs {
				keys = append(keys, ageKey(memory.IPKey(memory.TextKey(keyOfIP), ip), s))
			}
			return keys
		},
	},
})

// ageKey appends the age of a Service to a key, so that the oldest come first.
func ageKey(key []byte, s *Service) []byte {
	return binary.BigEndian.AppendUint64(key, uint64(max(s.Created.Unix(), 0)))
}

// NodePortKey returns the key of a port of all nodes. Health checks have the protocol TCP.
func NodePortKey(protocol string, port uint16) []byte {
	return binary.BigEndian.AppendUint16(memory.TextKey(keyOfPort, protocol), port)
}

// NodePortKeys returns the keys of the ports of all nodes that a Service has.
func NodePortKeys(ports []ServicePort, healthCheck uint16) (keys [][]byte) {
	if healthCheck != 0 {
		keys = append(keys, NodePortKey("TCP", healthCheck))
	}
	for _, port := range ports {
		if port.NodePort != 0 {
			keys = append(keys, NodePortKey(port.Protocol, port.NodePort))
		}
	}
	return keys
}

const (
	// byOutside has the external IPs and the node ports of a Service, with these words first.
	byOutside       = "outside"
	keyOfIP         = "ip"
	keyOfPort       = "port"
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
	list := services.List(tx, byOutside, memory.TextKey(keyOfIP))
	slices.SortFunc(list, func(a, b *Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(list)
}

// ServicesNaming yields the Services that name an external IP, the oldest first, then by
// namespace and name.
func ServicesNaming(tx ReadTx, ip netip.Addr) iter.Seq[*Service] {
	return services.Seq(tx, byOutside, memory.IPKey(memory.TextKey(keyOfIP), ip))
}

// ServicesByNodePort yields the Services with a port of all nodes. The API server allows one.
func ServicesByNodePort(tx ReadTx, protocol string, port uint16) iter.Seq[*Service] {
	return services.Seq(tx, byOutside, NodePortKey(protocol, port))
}

// ServicesSelecting yields the Services of a namespace whose Endpoints select a pod with these
// labels. Each Service is indexed by one of its labels, so that only Services with a label of the
// pod are read.
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
