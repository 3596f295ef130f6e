// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of the Ready condition of objects of the node IPAM API. PodNetworks also have
// Invalid, OlderServes, VPCNotFound, VPCNotReady, SubnetNotFound, SubnetNotReady and
// SubnetForOthers; PodNetworkInstances also Invalid, OlderServes, PodNetworkNotReady,
// TenantNotAllowed, SubnetExhausted, and why an address of spec.ipConstraint can't be
// reserved.
const (
	// ReservingReason (PodNetworkInstance): addresses are being reserved.
	ReservingReason = "Reserving"
	// ReservationLimitReason (PodNetworkInstance): the PodNetwork allows fewer reserved
	// addresses.
	ReservationLimitReason = "ReservationLimit"
	// ForeignDefinitionReason (PodNetworkInstance): the CRD is not Alioth's and drops what
	// Alioth notes about reserved addresses.
	ForeignDefinitionReason = "ForeignDefinition"
)
