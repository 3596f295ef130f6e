// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeipam has the rows of the node IPAM API: PodNetworks, PodNetworkInstances with
// the addresses that they reserve, MultitenantPodNetworkConfigs and NodeInfos. Each kind is in
// two API groups. Of two objects that a user gave one name in both, the older one serves.
package nodeipam
