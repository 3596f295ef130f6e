// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

// VF has the settings of interfaces on virtual functions, with the fields and values of
// annotations.VF.
type VF struct {
	SpoofCheck, Trust, LinkState string
	MinTxRate, MaxTxRate, QoS    *int
	Proto                        string
}
