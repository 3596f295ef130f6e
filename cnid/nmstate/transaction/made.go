// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// Devices has the facts about virtual devices in one boot of the host. A name alone tells
// nothing: a user may delete a device and make a second one of that name.
type Devices struct {
	Boot string `json:"boot"`
	// Made are the indexes of the devices that transactions have made, by name.
	Made map[string]uint32 `json:"made,omitempty"`
	// Seen are the devices of the committed state that existed, sorted.
	Seen []string `json:"seen,omitempty"`
}

const devicesFile = "devices.json"

// devices returns the facts of this boot.
func (m *Manager) devices() (d Devices, err error) {
	if _, err = m.dir.read(devicesFile, &d); err != nil || d.Boot != m.boot {
		return Devices{Boot: m.boot}, err
	}
	return d, nil
}

// keepDevices writes the facts to their file, unless the file has them.
func (m *Manager) keepDevices(d *Devices) error {
	if d == nil {
		return nil // of a record of an earlier release
	}
	if now, err := m.devices(); err == nil && reflect.DeepEqual(now, *d) {
		return nil
	}
	return m.dir.write(devicesFile, d)
}

// concerned is a desired state without interfaces that the document does not concern: missing
// ones that others make, and those to remove that no transaction has made.
func (m *Manager) concerned(ctx context.Context, desired, before *document.State) (*document.State, error) {
	there := byName(before.Interfaces)
	var now map[string]uint32
	var made Devices
	if slices.ContainsFunc(
		desired.Interfaces,
		func(i document.Interface) bool { return i.MadeBy == document.MadeByAlioth },
	) {
		image, err := m.Host.Image(ctx, snapshot.Area{})
		if err != nil {
			return nil, err
		}
		if made, err = m.devices(); err != nil {
			return nil, err
		}
		now = image.Indexes()
	}
	next := *desired
	next.Interfaces = slices.DeleteFunc(slices.Clone(desired.Interfaces), func(i document.Interface) bool {
		_, exists := there[i.Name]
		switch index := made.Made[i.Name]; i.MadeBy {
		case document.MadeByOthers:
			return !exists
		case document.MadeByAlioth:
			return !exists || index == 0 || index != now[i.Name]
		default:
			return false
		}
	})
	return &next, nil
}

// created are the devices that steps make.
func created(steps []plan.Step) (names []string) {
	for _, step := range steps {
		if s, ok := step.(plan.Create); ok {
			names = append(names, s.Interface.Name)
			if pair := s.Interface.Veth; pair != nil && pair.Peer != "" {
				names = append(names, pair.Peer)
			}
		}
	}
	return names
}

// identify adds to a record which devices the change has made.
func (m *Manager) identify(ctx context.Context, r *Record, c change) error {
	names := created(c.steps)
	if len(names) == 0 {
		return nil
	}
	image, err := m.Host.Image(ctx, snapshot.Area{})
	if err != nil {
		return fmt.Errorf("look for the devices that were made: %w", err)
	}
	indexes := image.Indexes()
	if r.Devices.Made == nil {
		r.Devices.Made = map[string]uint32{}
	}
	for _, name := range names {
		if index := indexes[name]; index != 0 {
			r.Devices.Made[name] = index
		}
	}
	return nil
}

// after returns the facts after a change, without the devices that the change makes.
func (d Devices) after(committed *document.State, c change) *Devices {
	there, final := byName(c.before.Interfaces), byName(c.target.Interfaces)
	exists := func(name string) bool {
		i, changes := final[name]
		_, was := there[name]
		return changes && i.State != document.Absent || !changes && was
	}
	next := &Devices{Boot: d.Boot, Made: maps.Clone(d.Made)}
	maps.DeleteFunc(next.Made, func(name string, _ uint32) bool { return !exists(name) })
	if len(next.Made) == 0 {
		next.Made = nil
	}
	for _, i := range committed.Interfaces {
		if compare.Virtual(i.Type) && exists(i.Name) {
			next.Seen = append(next.Seen, i.Name)
		}
	}
	slices.Sort(next.Seen)
	return next
}

// without is a committed state without the virtual interfaces that somebody else has removed in
// this boot, and that no document asks for since. The next boot would make them again.
func (d Devices) without(committed *document.State, c change) *document.State {
	there, wanted := byName(c.before.Interfaces), byName(c.desired.Interfaces)
	gone := func(name string) bool {
		_, exists := there[name]
		_, asked := wanted[name]
		return !exists && !asked && slices.Contains(d.Seen, name)
	}
	next := *committed
	next.Interfaces = slices.DeleteFunc(
		slices.Clone(committed.Interfaces),
		func(i document.Interface) bool { return gone(i.Name) },
	)
	if committed.Routes != nil {
		kept := slices.DeleteFunc(
			slices.Clone(committed.Routes.Config),
			func(r document.Route) bool { return gone(r.Interface) },
		)
		if next.Routes = nil; len(kept) > 0 {
			next.Routes = &document.Routes{Config: kept}
		}
	}
	return &next
}
