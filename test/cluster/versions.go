// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
)

// Versions are the minor versions of what a lab runs, for example 1.35. An empty one is the
// version that the pins of test/cluster have in their go.mod.
type Versions struct {
	// Kubernetes is the version of the control plane and of kubectl.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Kubelet is Kubernetes where it is empty.
	Kubelet    string `json:"kubelet,omitempty"`
	Containerd string `json:"containerd,omitempty"`
}

func (v Versions) kubelet() string { return cmp.Or(v.Kubelet, v.Kubernetes) }

// Versions returns the versions that the lab was brought up with.
func (c *Cluster) Versions() Versions { return c.state.get().Versions }

// setVersions completes the options. A lab keeps the versions that it came up with: its
// kubelets and the data of its containerd do not change versions while pods run.
func (o *Options) setVersions(found bool, old Versions) error {
	switch {
	case o.Versions != (Versions{}) && o.Topology.Guests > 0:
		return fmt.Errorf("the lab with virtual machines has the default versions only")
	case !found || o.Versions == old:
		return nil
	case o.Versions != (Versions{}):
		return fmt.Errorf("a lab with the versions %+v is here already, which cannot become one with %+v: run first: make down", old, o.Versions)
	}
	o.Versions = old
	return nil
}
