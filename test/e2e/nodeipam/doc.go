// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeipam shows pods of another CNI plugin with addresses of Alioth: the plugin
// bridge, with alioth-ipam, attaches the pods of one node. It runs on the lab that is up, or
// brings one up, when ALIOTH_E2E=1 is set, as root. Other tests must not run meanwhile.
package nodeipam
