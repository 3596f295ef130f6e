// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"fmt"

	"github.com/alioth-net/alioth/api/netif"
)

// VFKey is an annotation with the settings of interfaces on virtual functions (VFs). It stands
// on a DanmNet, TenantNetwork or ClusterNetwork of type sriov, and on a
// NetworkAttachmentDefinition that names one (NetworkKey). Its keys equal the keys of the
// configuration of the CNI plugin sriov.
const VFKey = "alioth.dev/sriov"

const vfExample = `{"max_tx_rate": 1000, "link_state": "auto"}`

// ParseVF reads the annotation VFKey. Unknown keys, keys in another case and keys written
// twice are errors, as are values out of their range.
func ParseVF(text string) (netif.VF, error) {
	var vf netif.VF
	err := decodeStrict(text, &vf)
	if err == nil {
		err = vf.Check()
	}
	if err != nil {
		return netif.VF{}, fmt.Errorf("annotation %s: %w", VFKey, wanted("JSON object", vfExample, err))
	}
	return vf, nil
}
