// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/policy"
)

// PolicyIdentity is the kind of a number that stands for a set of labels. No node follows it yet.
var PolicyIdentity = descriptor.Define(&all, descriptor.Description[*v1alpha1.PolicyIdentity, policy.Identity]{
	Name: "PolicyIdentity", Object: &v1alpha1.PolicyIdentity{}, List: &v1alpha1.PolicyIdentityList{}, Convert: convertPolicyIdentity,
	Table: descriptor.ByName(policy.GetIdentity, policy.PutIdentity, policy.DeleteIdentity),
})

// convertPolicyIdentity converts a PolicyIdentity. It fails for a protocol that is not known: a set without
// one of its ports would be another set.
func convertPolicyIdentity(in *v1alpha1.PolicyIdentity) (*policy.Identity, error) {
	row := &policy.Identity{
		Meta: values.Meta(in), Name: in.Name, VPC: in.Spec.VPC, Number: uint32(in.Spec.Number), Namespace: in.Spec.Namespace,
		Labels: map[string]string{}, Omitted: in.Spec.Omitted,
	}
	for _, label := range in.Spec.Labels {
		row.Labels[label.Key] = label.Value
	}
	for _, port := range in.Spec.Ports {
		if err := values.Known("spec.ports.protocol", port.Protocol, "TCP", "UDP", "SCTP"); err != nil {
			return nil, fmt.Errorf("convert PolicyIdentity %s: %w", in.Name, err)
		}
		row.Ports = append(row.Ports, policy.Port{Name: port.Name, Protocol: port.Protocol, Port: uint16(port.Port)})
	}
	return row, nil
}
