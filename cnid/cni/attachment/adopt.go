// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Rebuild returns the control plane's decision for the pod of an interface that the driver of a
// kind found on the node. The result is a record with pod, attachment, binding, addresses,
// gateways, MAC, and shadow addresses if they are known. The error says why no such decision
// exists.
type Rebuild func(ifdriver.Kind, ifdriver.Found) (journal.Record, error)

// Unknown is an interface on the node without a record in the journal, and the reason
// why the record can't be rebuilt.
type Unknown struct {
	ifdriver.Found
	Cause error
}

// Adopt adds interfaces to the journal that are on the node without a record, because
// the journal was damaged or deleted. The next pass over the node connects their pods
// again. The returned interfaces do not change, and end with their sandboxes. It returns
// an error if the node's interfaces can't be read.
func (m *Manager) Adopt(ctx context.Context, rebuild Rebuild) ([]Unknown, error) {
	var unknown []Unknown
	var errs []error
	for kind, driver := range m.cfg.Drivers {
		list, err := driver.List(ctx)
		errs = append(errs, err)
		for _, found := range list {
			if err := m.adopt(kind, found, rebuild); err != nil {
				unknown = append(unknown, Unknown{found, err})
			}
		}
	}
	return unknown, errors.Join(errs...)
}

// adopt skips interfaces that a call is processing: Establish recreates the interface,
// and Remove removes it.
func (m *Manager) adopt(kind ifdriver.Kind, found ifdriver.Found, rebuild Rebuild) error {
	unlock, free := m.locks.Try(found.ContainerID)
	if !free {
		return nil
	}
	defer unlock()
	key := journal.Key{ContainerID: found.ContainerID, IfName: found.IfName}
	if _, err := m.cfg.Journal.Get(key); err == nil {
		return nil
	}
	rec, err := rebuild(kind, found)
	if err == nil {
		rec.Key, rec.Request, rec.Kind = key, found.Request, kind
		rec.CNINetwork, rec.NetnsPath = found.Network, found.NetnsPath
		rec.HostIfName, rec.MTU, rec.PCI = found.Link.HostIfName, found.MTU, found.PCI
		rec, err = m.cfg.Journal.Adopt(rec, device(found.Link))
	}
	if err != nil {
		return err
	}
	m.logOf(rec).Warn("the journal had lost an attachment; rebuilt it from the node and the API")
	return nil
}
