// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

var services = &table[Service]{
	name: "service",
	key:  func(s *Service) []byte { return textKey(s.Namespace, s.Name) },
	meta: func(s *Service) *Meta { return &s.Meta },
	indexes: map[string]func(*Service) []byte{
		byNetwork: func(s *Service) []byte { return textKey(s.Namespace, s.Network) },
		withExternalIPs: func(s *Service) []byte {
			if len(s.ExternalIPs) == 0 {
				return nil
			}
			return textKey(s.Namespace, s.Name)
		},
	},
}

const withExternalIPs = "externalips"

// AsHolder returns the Service as the holder of its addresses.
func (s *Service) AsHolder() Holder {
	return Holder{Kind: HolderService, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// ByBackendsHere tells whether nodes without a backend of the Service do not serve what
// comes from outside: either it must not go on to another node, or it can't, as there is
// no node port by which it would.
func (s *Service) ByBackendsHere() bool {
	return s.ExternalNodeLocal || slices.ContainsFunc(s.Ports, func(port ServicePort) bool { return port.NodePort == 0 })
}

// GetService returns a Service, or nil.
func GetService(tx ReadTx, namespace, name string) *Service {
	return services.get(tx, textKey(namespace, name))
}

// ServicesByNetwork returns the Services of a namespace with that network
// label, by name. The empty label means Services without one.
func ServicesByNetwork(tx ReadTx, namespace, label string) []*Service {
	return services.list(tx, byNetwork, textKey(namespace, label))
}

// ServicesByNamespace returns the Services of a namespace by name.
func ServicesByNamespace(tx ReadTx, namespace string) []*Service {
	return services.list(tx, primary, textKey(namespace))
}

// ServicesWithExternalIPs returns the Services that name external IPs, by namespace
// and name.
func ServicesWithExternalIPs(tx ReadTx) []*Service {
	return services.list(tx, withExternalIPs, []byte{})
}

// ListServices returns all Services by namespace and name.
func ListServices(tx ReadTx) []*Service {
	return slices.Collect(services.all(tx))
}

// PutService inserts or replaces a Service.
func PutService(tx Tx, row *Service) error {
	_, err := services.put(tx, row)
	return err
}

// DeleteService removes a Service if it has that UID, and reports whether it
// did.
func DeleteService(tx Tx, namespace, name, uid string) bool {
	return services.remove(tx, textKey(namespace, name), uid) != nil
}
