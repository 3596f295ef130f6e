// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"cmp"
	"errors"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (e *Endpoint) Check() error {
	err := cmp.Or(
		e.Head.check(),
		sound.Names(e.Namespace, e.Service, e.VPC),
		sound.Texts(e.ServiceUID, e.VPCUID),
	)
	if err != nil {
		return err
	}
	for i := range e.Backends {
		b := &e.Backends[i]
		err := cmp.Or(
			sound.Hosts("backend", b.IP),
			sound.Names(b.Node),
			sound.Texts(b.PodUID),
			sound.Texts(b.ForNodes...),
			sound.Texts(b.ForZones...),
		)
		if err != nil {
			return err
		}
		for _, target := range b.Targets {
			if target.Port == 0 || target.Target == 0 {
				return errors.New("a port of a backend has no number")
			}
			if err := sound.Texts(target.Protocol); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error for a head that contradicts itself, else nil.
func (h *Head) check() error {
	if h == nil {
		return nil
	}
	if h.InVPC != nil {
		if err := cmp.Or(sound.VNI("VNI", h.InVPC.VNI), sound.OwnRanges("range", h.InVPC.Prefixes...)); err != nil {
			return err
		}
	}
	return cmp.Or(
		store.CheckPorts(h.Ports...),
		sound.Hosts("cluster IP", h.ClusterIPs...),
		sound.Hosts("load-balancer IP", h.LoadBalancerIPs...),
		sound.Hosts(
			"external IP",
			h.ExternalIPs...),
		sound.Affinity(h.Affinity),
		sound.Ranges("source range", h.SourceRanges...),
		sound.Texts(h.Tenant),
	)
}
