// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the policies of node network states in the group nmstate.io:
// NodeNetConfPolicy of the early design of kubernetes-nmstate, and
// NodeNetworkConfigurationPolicy of today's. Fields have the names that kubernetes-nmstate gives
// them, so its manifests apply. Package api/nmstate/v1beta1 has the states and the enactments,
// and today's policy in its older version.
//
// A state is a document of package api/nmstate/document. The schemas do not check it: it may
// have {{ capture.name }} where the document has a number. The node's engine checks it.
//
// It holds types, validation markers and the names of conditions and reasons, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=nmstate.io
package v1
