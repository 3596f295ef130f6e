// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/quote"
)

// Kinds of the objects that a Target names.
const (
	TargetDanmNet        = "DanmNet"
	TargetTenantNetwork  = "TenantNetwork"
	TargetClusterNetwork = "ClusterNetwork"
	TargetVPC            = "VPC"
)

// Target is the network that users name for an interface. It says nothing about
// whether the network exists, or whether they may use it.
type Target struct {
	// Kind is one of the constants above. A DanmNet or TenantNetwork is in the
	// namespace of the object with the annotation.
	Kind string
	// Name of the object, a DNS-1123 subdomain; of a VPC a DNS-1123 label. It is "" for
	// the VPC of Subnet, whatever its name is.
	Name string
	// Subnet requested in the VPC, by object name or spec.name; "" for any.
	Subnet string
}

// targetJSON has the keys of a Target. The first three are keys of DANM, the others Alioth's
// own.
type targetJSON struct {
	Network        *string `json:"network"`
	TenantNetwork  *string `json:"tenantNetwork"`
	ClusterNetwork *string `json:"clusterNetwork"`
	VPC            *string `json:"vpc"`
	Subnet         *string `json:"subnet"`
}

// read returns the one network that is named. Empty texts name none, as in DANM.
func (j targetJSON) read() (Target, error) {
	target, found := Target{Subnet: value(j.Subnet)}, 0
	for _, one := range []struct{ key, kind, name string }{
		{"network", TargetDanmNet, value(j.Network)},
		{"tenantNetwork", TargetTenantNetwork, value(j.TenantNetwork)},
		{"clusterNetwork", TargetClusterNetwork, value(j.ClusterNetwork)},
		{"vpc", TargetVPC, value(j.VPC)},
	} {
		if one.name == "" {
			continue
		}
		if !isObjectName(one.name) || one.kind == TargetVPC && !labelName.MatchString(one.name) {
			return Target{}, fmt.Errorf("%s %s is no object name", one.key, quote.Text(one.name))
		}
		target.Kind, target.Name = one.kind, one.name
		found++
	}
	if found != 1 {
		return Target{}, fmt.Errorf(
			`it names %d networks: write exactly one of "network", "tenantNetwork", "clusterNetwork" and "vpc"`,
			found,
		)
	}
	return target, checkSubnet(target)
}

func checkSubnet(target Target) error {
	switch {
	case target.Subnet == "":
		return nil
	case target.Kind != TargetVPC:
		return errors.New(`"subnet" is for "vpc" only: remove it, or name the VPC`)
	case !isObjectName(target.Subnet):
		return fmt.Errorf("subnet %s is no object name", quote.Text(target.Subnet))
	}
	return nil
}
