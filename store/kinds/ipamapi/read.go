// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipamapi

import (
	"cmp"
	"net"
	"net/netip"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// convertPodNetwork converts all but the Ref. It never fails.
func convertPodNetwork(in *v1alpha1.PodNetwork) *nodeipam.PodNetwork {
	spec := &in.Spec
	row := &nodeipam.PodNetwork{
		Meta: values.Meta(
			in,
		), MaxReserved: v1alpha1.DefaultMaxReservedIPs, SubnetGUID: spec.SubnetGUID, SubnetResourceID: spec.SubnetResourceID,
		Ready: in.Status.Status == v1alpha1.PodNetworkReady || in.Status.Status == v1alpha1.PodNetworkInUse,
	}
	_, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	if spec.MaxReservedIPs != nil {
		row.MaxReserved = int(*spec.MaxReservedIPs)
	}
	var invalid values.Faults
	field := "networkID"
	if spec.NetworkID == "" && spec.VnetGUID != "" {
		field = "vnetGUID"
	}
	row.VPC = nameIn(field, cmp.Or(spec.NetworkID, spec.VnetGUID), "VPC", &invalid)
	row.Subnet = nameIn("subnetResourceID", lastOfPath(spec.SubnetResourceID), "subnet", &invalid)
	if spec.DeviceType != "" && spec.DeviceType != v1alpha1.DeviceTypeVnetNIC {
		invalid.Add("deviceType %s is not served: use %s", quote.Name(spec.DeviceType), v1alpha1.DeviceTypeVnetNIC)
	}
	if spec.SubnetAllocationMode != "" && spec.SubnetAllocationMode != v1alpha1.AllocationSingle {
		invalid.Add(
			"subnetAllocationMode %s is not served: use %s",
			quote.Name(spec.SubnetAllocationMode),
			v1alpha1.AllocationSingle,
		)
	}
	row.Invalid = invalid.String()
	return row
}

// lastOfPath returns the last part of a path, and all of a text without slashes.
func lastOfPath(text string) string {
	if text == "" {
		return ""
	}
	return path.Base(text)
}

// nameIn returns a text that can be the name of an object, and "" instead of another one.
func nameIn(field, text, what string, invalid *values.Faults) string {
	if text == "" {
		return ""
	}
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		invalid.Add("%s %s can't be the name of a %s: correct it", field, quote.Text(text), what)
		return ""
	}
	return text
}

// convertInstance converts all but the Ref. It never fails.
func convertInstance(in *v1alpha1.PodNetworkInstance) *nodeipam.Instance {
	row := &nodeipam.Instance{
		Meta:        values.Meta(in),
		DefaultDeny: in.Spec.DefaultDenyACL,
		Ready:       in.Status.Status == v1alpha1.InstanceReady,
	}
	_, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	configs := in.Spec.PodNetworkConfigs
	if len(configs) == 0 && in.Spec.PodNetwork != "" {
		configs = []v1alpha1.PodNetworkConfig{
			{PodNetwork: in.Spec.PodNetwork, PodIPReservationSize: in.Spec.PodIPReservationSize},
		}
	}
	var invalid values.Faults
	for i := range configs {
		name := nameIn("podNetwork", configs[i].PodNetwork, "PodNetwork", &invalid)
		if name == "" {
			continue
		}
		row.Interfaces = append(row.Interfaces, nodeipam.Interface{
			PodNetwork: name, Reserve: int(configs[i].PodIPReservationSize),
			IP: readConstraint(configs[i].IPConstraint, &invalid),
		})
	}
	for i := range in.Status.Reservations {
		row.Reserved = append(row.Reserved, readReservation(&in.Status.Reservations[i], &invalid))
	}
	row.Invalid = invalid.String()
	return row
}

// readConstraint reads an address that may end with /32.
func readConstraint(text string, invalid *values.Faults) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(text, "/32"))
	if err != nil || !ip.Is4() {
		invalid.Add("ipConstraint %s is not one IPv4 address", quote.Text(text))
		return netip.Addr{}
	}
	return ip
}

func readReservation(in *v1alpha1.Reservation, invalid *values.Faults) nodeipam.Reserved {
	reserved := nodeipam.Reserved{PodNetwork: in.PodNetwork, VPC: in.NetworkID}
	for _, text := range in.PodIPAddresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			invalid.Add("status.reservations: %s is no address", quote.Text(text))
			continue
		}
		reserved.IPs = append(reserved.IPs, ip.Unmap())
	}
	return reserved
}

// podConfig converts all of a config but the Ref.
func podConfig(in metav1.Object, choice *v1alpha1.PodNetworkChoice, status string) *nodeipam.PodConfig {
	row := &nodeipam.PodConfig{
		Meta:       values.Meta(in),
		PodNetwork: choice.PodNetwork,
		Instance:   choice.PodNetworkInstance,
		Status:     status,
	}
	if owner := metav1.GetControllerOfNoCopy(in); owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1" {
		row.PodUID = string(owner.UID)
	}
	return row
}

// convertNodeInfo converts all but the Ref. It never fails.
func convertNodeInfo(in *v1alpha1.NodeInfo) *nodeipam.NodeInfo {
	row := &nodeipam.NodeInfo{Meta: values.Meta(in), VMUniqueID: in.Spec.VMUniqueID}
	var invalid values.Faults
	for _, device := range in.Status.DeviceInfos {
		if device.DeviceType != "" && device.DeviceType != v1alpha1.DeviceTypeVnetNIC {
			continue // Alioth serves no other devices
		}
		mac, err := net.ParseMAC(device.MacAddress)
		if err != nil || len(mac) != 6 {
			invalid.Add("macAddress %s is no Ethernet address", quote.Text(device.MacAddress))
			continue
		}
		row.MACs = append(row.MACs, mac.String())
	}
	row.Invalid = invalid.String()
	return row
}
