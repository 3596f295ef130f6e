// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

func (s *session) check(a Attachment, names []string) error {
	notes, err := s.notes.All()
	if err != nil {
		return err
	}
	moved := map[string]bool{}
	for _, n := range notes {
		if n.ContainerID != a.ContainerID {
			continue
		}
		for _, d := range n.Devices {
			moved[d.Name] = true
		}
		if n.IfName != a.IfName {
			continue
		}
		if err := s.checkNote(n, a.NetnsPath); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !moved[name] {
			return podside.Gone("device %s was not given to this sandbox, or was released", name)
		}
	}
	return nil
}

// checkNote compares the devices in the pod with a note. It tolerates additions of others.
func (s *session) checkNote(n note, path string) error {
	pod, err := netns.Open(path)
	if errors.Is(err, netns.ErrGone) {
		return podside.Gone("network namespace %s is gone", path)
	}
	if err != nil {
		return err
	}
	defer func() { _ = pod.Close() }() // nothing was written
	return podside.Within(pod, func(h *rtnl.Socket) error {
		for _, d := range n.Devices {
			if err := d.check(h); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d device) check(h *rtnl.Socket) error {
	link, err := h.LinkByName(d.Name)
	switch {
	case podside.IsNotFound(err):
		return podside.Gone("interface %s is gone", d.Name)
	case err != nil:
		return fmt.Errorf("find %s: %w", d.Name, err)
	case !d.is(link):
		return podside.Mismatch("interface %s is not the device %s", d.Name, d.MAC)
	}
	if err := podside.CheckDevice("interface "+d.Name, link, d.MAC, d.Was.MTU); err != nil {
		return err
	}
	if err := podside.CheckAddrs(h.Handle, link, d.Addrs); err != nil {
		return err
	}
	if err := podside.CheckRoutes(h.Handle, link, d.spec()); err != nil {
		return err
	}
	return podside.CheckIPv6(d.spec())
}
