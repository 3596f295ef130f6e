// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"fmt"

	selection "k8s.io/apimachinery/pkg/fields"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// HostLink is the kind of a VLAN or VXLAN link on the nodes. Every node follows all of
// them: which devices it has is its own matter.
var HostLink = descriptor.Define(&all, descriptor.Description[*v1alpha1.HostLink, multinet.HostLink]{
	Name: "HostLink", Object: &v1alpha1.HostLink{}, List: &v1alpha1.HostLinkList{}, Convert: convertHostLink,
	Table:  descriptor.ByName(multinet.GetHostLink, multinet.PutHostLink, multinet.DeleteHostLink),
	OnNode: descriptor.Everything,
})

// convertHostLink converts a HostLink.
func convertHostLink(in *v1alpha1.HostLink) (*multinet.HostLink, error) {
	if err := values.Known("spec.type", in.Spec.Type, multinet.VLAN, multinet.VXLAN, multinet.DeviceOnly); err != nil {
		return nil, fmt.Errorf("convert HostLink %s: %w", in.Name, err)
	}
	return &multinet.HostLink{
		Meta: values.Meta(
			in,
		), Name: in.Name, LinkID: multinet.LinkID{Device: in.Spec.Device, Type: in.Spec.Type, VNI: uint32(in.Spec.VNI)},
		NetworkID: in.Spec.NetworkID, MTU: int(in.Spec.MTU),
	}, nil
}

// HostLinkReport is the kind of a node's report about its host links. Other nodes follow the
// reports with addresses.
var HostLinkReport = descriptor.Define(&all, descriptor.Description[*v1alpha1.HostLinkReport, multinet.LinkReport]{
	Name: "HostLinkReport", Object: &v1alpha1.HostLinkReport{}, List: &v1alpha1.HostLinkReportList{}, Convert: convertHostLinkReport,
	Table: descriptor.ByName(multinet.GetLinkReport, multinet.PutLinkReport, multinet.DeleteLinkReport),
	OnNode: func(string) descriptor.Scope {
		return descriptor.Scope{Fields: selection.OneTermEqualSelector("spec.addressed", "true")}
	},
})

// convertHostLinkReport converts a HostLinkReport. It never fails.
func convertHostLinkReport(in *v1alpha1.HostLinkReport) (*multinet.LinkReport, error) {
	row := &multinet.LinkReport{Meta: values.Meta(in), Name: in.Name}
	for _, f := range in.Spec.Failures {
		row.Failures = append(row.Failures, multinet.LinkFailure{
			LinkID: multinet.LinkID{
				Device: f.Device,
				Type:   f.Type,
				VNI:    uint32(f.VNI),
			}, Reason: f.Reason, Message: quote.Message(f.Message),
		})
	}
	row.Configured, row.Configurations = in.Spec.Configured, in.Spec.Configurations
	for _, at := range in.Spec.Addresses {
		addrs := multinet.DeviceAddrs{Device: at.Device}
		for _, text := range at.IPs {
			// A node wrote it: an address that can't be a host's must not concern the others.
			if ip, ok := values.HostAddr(text); ok {
				addrs.Addrs = append(addrs.Addrs, ip)
			}
		}
		row.Addresses = append(row.Addresses, addrs)
	}
	return row, nil
}
