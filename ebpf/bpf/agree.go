// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Package state does not import the compiled programs. The compiler compares the
// constants of both here: an array of one has no other index than 0.
var (
	_ = [1]bool{}[AliothAddressKind(state.Local)^AliothAddressKindADDRESS_LOCAL]
	_ = [1]bool{}[AliothAddressKind(state.Remote)^AliothAddressKindADDRESS_REMOTE]
	_ = [1]bool{}[AliothAddressKind(state.Gateway)^AliothAddressKindADDRESS_GATEWAY]
	_ = [1]bool{}[AliothAddressKind(state.HeldOutside)^AliothAddressKindADDRESS_OUTSIDE]

	_ = [1]bool{}[AliothClosedClass(state.ClosedShadow)^AliothClosedClassCLOSED_SHADOW]
	_ = [1]bool{}[AliothClosedClass(state.ClosedNode)^AliothClosedClassCLOSED_NODE]
	_ = [1]bool{}[AliothClosedClass(state.ClosedDefaultVPC)^AliothClosedClassCLOSED_DEFAULT_VPC]
	_ = [1]bool{}[AliothClosedClass(state.ClosedService)^AliothClosedClassCLOSED_SERVICE]
	_ = [1]bool{}[AliothClosedClass(state.ClosedLinkLocal)^AliothClosedClassCLOSED_LINK_LOCAL]
	_ = [1]bool{}[AliothClosedClass(state.ClosedMulticast)^AliothClosedClassCLOSED_MULTICAST]
	_ = [1]bool{}[AliothClosedClass(state.ClosedDenied)^AliothClosedClassCLOSED_DENIED]
	_ = [1]bool{}[AliothClosedClass(state.ClosedUnlisted)^AliothClosedClassCLOSED_UNLISTED]
	_ = [1]bool{}[AliothClosedClass(state.ClosedMetadata)^AliothClosedClassCLOSED_METADATA]
	_ = [1]bool{}[AliothClosedClass(state.OpenListed)^AliothClosedClassOPEN_LISTED]
	_ = [1]bool{}[AliothClosedClass(state.OpenMetadata)^AliothClosedClassOPEN_METADATA]
	_ = [1]bool{}[AliothClosedClass(state.ClosedBalancer)^AliothClosedClassCLOSED_BALANCER]

	_ = [1]bool{}[AliothMark(state.MarkMask)^AliothMarkMARK_MASK]
	_ = [1]bool{}[AliothMark(state.MarkShared)^AliothMarkMARK_SHARED]
	_ = [1]bool{}[AliothMark(state.MarkEgress)^AliothMarkMARK_EGRESS]
	_ = [1]bool{}[AliothMark(state.MarkNode)^AliothMarkMARK_NODE]
	_ = [1]bool{}[AliothMark(state.MarkOpening)^AliothMarkMARK_OPENING]
	_ = [1]bool{}[AliothMark(state.MarkTunneled)^AliothMarkMARK_TUNNELED]

	_ = [1]bool{}[len(AliothRole{}.Member)^state.RoleMembersAtMost]

	_ = [1]bool{}[len(AliothNetns{}.Vpc)^state.MaxMemberships]
)
