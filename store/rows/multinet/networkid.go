// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"regexp"
	"strconv"
	"strings"
)

// safeNetworkID matches a file's name without a path.
var safeNetworkID = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]{0,199}$`)

// longestNetworkID is the longest NetworkID of a dynamic network, in bytes.
const longestNetworkID = 11

// CheckNetworkID returns why a network of the type can't have a NetworkID, "" if it can. The
// NetworkID is the name of a file on the nodes. With a VNI it is also a part of a device's name,
// which has 15 bytes at most.
func CheckNetworkID(id, networkType string, withVNI bool) string {
	limit := longestNetworkID
	if withVNI {
		limit--
	}
	switch {
	case !safeNetworkID.MatchString(id):
		return "it has other characters than letters, digits, '-', '_' and '.'"
	case Dynamic(networkType) && len(id) > limit:
		return "it has more than " + strconv.Itoa(limit) + " bytes"
	case Dynamic(networkType) && withVNI && ReservedDevice(id):
		return "names of devices that begin with " + strings.Join(
			ReservedPrefixes,
			" or ",
		) + " are reserved for Alioth: create the network again with another NetworkID"
	}
	return ""
}
