// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/alioth-net/alioth/ebpf/datapath/state"

// Package state knows nothing of the compiled programs. What the two have in common
// is compared here, by the compiler: an array of one has no other index than 0.
var (
	_ = [1]bool{}[aliothAddressKind(state.Local)^aliothAddressKindADDRESS_LOCAL]
	_ = [1]bool{}[aliothAddressKind(state.Remote)^aliothAddressKindADDRESS_REMOTE]
	_ = [1]bool{}[aliothAddressKind(state.Gateway)^aliothAddressKindADDRESS_GATEWAY]

	_ = [1]bool{}[aliothClosedClass(state.ClosedShadow)^aliothClosedClassCLOSED_SHADOW]
	_ = [1]bool{}[aliothClosedClass(state.ClosedNode)^aliothClosedClassCLOSED_NODE]
	_ = [1]bool{}[aliothClosedClass(state.ClosedDefaultVPC)^aliothClosedClassCLOSED_DEFAULT_VPC]
	_ = [1]bool{}[aliothClosedClass(state.ClosedService)^aliothClosedClassCLOSED_SERVICE]
	_ = [1]bool{}[aliothClosedClass(state.ClosedLinkLocal)^aliothClosedClassCLOSED_LINK_LOCAL]
	_ = [1]bool{}[aliothClosedClass(state.ClosedMulticast)^aliothClosedClassCLOSED_MULTICAST]
	_ = [1]bool{}[aliothClosedClass(state.ClosedDenied)^aliothClosedClassCLOSED_DENIED]
	_ = [1]bool{}[aliothClosedClass(state.ClosedUnlisted)^aliothClosedClassCLOSED_UNLISTED]
	_ = [1]bool{}[aliothClosedClass(state.ClosedMetadata)^aliothClosedClassCLOSED_METADATA]
	_ = [1]bool{}[aliothClosedClass(state.OpenListed)^aliothClosedClassOPEN_LISTED]
	_ = [1]bool{}[aliothClosedClass(state.OpenMetadata)^aliothClosedClassOPEN_METADATA]
	_ = [1]bool{}[aliothClosedClass(state.ClosedBalancer)^aliothClosedClassCLOSED_BALANCER]

	_ = [1]bool{}[aliothMark(state.MarkMask)^aliothMarkMARK_MASK]
	_ = [1]bool{}[aliothMark(state.MarkShared)^aliothMarkMARK_SHARED]
	_ = [1]bool{}[aliothMark(state.MarkEgress)^aliothMarkMARK_EGRESS]
	_ = [1]bool{}[aliothMark(state.MarkNode)^aliothMarkMARK_NODE]
	_ = [1]bool{}[aliothMark(state.MarkOpening)^aliothMarkMARK_OPENING]
	_ = [1]bool{}[aliothMark(state.MarkTunneled)^aliothMarkMARK_TUNNELED]

	_ = [1]bool{}[len(aliothNetns{}.Vpc)^state.MaxMemberships]
)
