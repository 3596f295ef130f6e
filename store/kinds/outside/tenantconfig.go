// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// config has the common parts of TenantConfigs of both groups.
type config struct {
	devices    []danmv1.HostDevice
	networkIDs map[string]danmv1.NetworkID
	status     *danmv1.TenantConfigStatus
}

func defineConfig[O kube.Object](group string, object O, list kube.List, fields func(O) config) Config {
	objects := configsIn[O]{group, fields}
	kind := descriptor.Define(&all, descriptor.Description[O, multinet.TenantConfig]{
		Name: "TenantConfig", Object: object, List: list, Optional: true,
		Convert: func(in O) (*multinet.TenantConfig, error) { return objects.Convert(in), nil },
		Table: descriptor.Table[multinet.TenantConfig]{
			Get: func(tx store.ReadTx, id descriptor.ID) *multinet.TenantConfig {
				return multinet.GetTenantConfig(tx, group, id.Name)
			},
			Put:    multinet.PutTenantConfig,
			Remove: func(tx store.Tx, id descriptor.ID) { multinet.DeleteTenantConfig(tx, group, id.Name, id.UID) },
		},
		Owns: func(row *multinet.TenantConfig) bool { return row.Group == group },
		Verdict: func(row *multinet.TenantConfig) descriptor.Verdict {
			return descriptor.Verdict{
				ID:      descriptor.ID{Name: row.Name, UID: row.UID},
				Ready:   row.Ready,
				Reason:  row.Reason,
				Message: row.Message,
			}
		},
		Rows: multinet.TenantConfigs,
	})
	return Config{kind.Kind, group, objects}
}

// configsIn reads TenantConfigs O of a group.
type configsIn[O kube.Object] struct {
	group  string
	fields func(O) config
}

// Status implements configObjects.
func (c configsIn[O]) Status(object kube.Object) *danmv1.TenantConfigStatus {
	return c.fields(object.(O)).status
}

// Convert implements configObjects.
func (c configsIn[O]) Convert(object kube.Object) *multinet.TenantConfig {
	return tenantConfig(object, c.group, c.fields(object.(O)))
}

// tenantConfig converts a TenantConfig. It never fails: Invalid describes unusable parts.
func tenantConfig(in metav1.Object, group string, c config) *multinet.TenantConfig {
	row := &multinet.TenantConfig{Meta: values.Meta(in), Group: group, Name: in.GetName()}
	row.Ready, row.Reason, row.Message = values.Readiness(c.status.Conditions)
	var invalid values.Faults
	if len(c.devices) == 0 && len(c.networkIDs) == 0 {
		invalid.Add("neither hostDevices nor networkIds: give one of them")
	}
	for _, device := range c.devices {
		row.Devices = append(row.Devices, readDevice(device, &invalid))
	}
	row.NetworkIDs = readNetworkIDs(c.networkIDs, &invalid)
	row.Invalid = invalid.String()
	return row
}

// longestDevice is the longest name that a HostVNIClaim can have, in bytes.
const longestDevice = 100

func readDevice(in danmv1.HostDevice, invalid *values.Faults) multinet.HostDevice {
	name := quote.Name(in.Name)
	device := multinet.HostDevice{Tenants: invalid.Texts("tenants", in.Tenants)}
	var err error
	if device.Ranges, err = values.Prefixes(in.CIDRs); err != nil {
		invalid.Add("cidrs of %s can't be read: %v", name, err)
	}
	if device.Name = in.Name; in.Name == "" || len(in.Name) > longestDevice || !quote.IsShort(in.Name) {
		device.Name = ""
		invalid.Add("name %s of a host device is not of 1 to %d bytes", quote.Text(in.Name), longestDevice)
	}
	if (in.VNIType == "") != (in.VNIRange == "") {
		invalid.Add("vniType and vniRange of %s belong together: set both or none", name)
		return device
	}
	device.VNIType = string(in.VNIType)
	switch in.VNIType {
	case "":
	case danmv1.VNITypeVLAN:
		device.VNIs = readVNIs(in, maxVLAN, invalid)
	case danmv1.VNITypeVXLAN:
		device.VNIs = readVNIs(in, maxVXLAN, invalid)
	default:
		device.VNIType = ""
		invalid.Add(
			"hostDevices of %s: %v",
			name,
			values.Known("vniType", in.VNIType, danmv1.VNITypeVLAN, danmv1.VNITypeVXLAN),
		)
	}
	return device
}

func readVNIs(in danmv1.HostDevice, limit uint32, invalid *values.Faults) []multinet.VNIRange {
	ranges, ok := parseVNIRange(in.VNIRange, limit)
	if !ok {
		invalid.Add(
			"vniRange %s of %s is no list of numbers and ranges from 1 to %d, such as 2000-2500,2601",
			quote.Text(in.VNIRange),
			quote.Name(in.Name),
			limit,
		)
	}
	return ranges
}

// parseVNIRange reads a list of numbers and ranges from 1 to limit, separated by commas.
// The ranges are in ascending order and without overlaps. ok is false if a part can't be
// read.
func parseVNIRange(text string, limit uint32) (ranges []multinet.VNIRange, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 32)
		to, errTo := strconv.ParseUint(last, 10, 32)
		if errFrom != nil || errTo != nil || from == 0 || to < from || to > uint64(limit) {
			return nil, false
		}
		ranges = append(ranges, multinet.VNIRange{First: uint32(from), Last: uint32(to)})
	}
	slices.SortFunc(ranges, func(a, b multinet.VNIRange) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	joined := ranges[:1]
	for _, r := range ranges[1:] {
		if last := &joined[len(joined)-1]; r.First <= last.Last {
			last.Last = max(last.Last, r.Last)
		} else {
			joined = append(joined, r)
		}
	}
	return joined, true
}

func readNetworkIDs(in map[string]danmv1.NetworkID, invalid *values.Faults) map[string]string {
	if len(in) == 0 {
		return nil
	}
	ids := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		networkType, id := strings.ToLower(invalid.Text("a type in networkIds", key)), string(in[key])
		if networkType == "" || id == "" {
			invalid.Add("networkIds has an entry without type or NetworkID: give both")
			continue
		}
		if why := multinet.CheckNetworkID(id, networkType, false); why != "" {
			invalid.Add("NetworkID %s of type %s in networkIds can't be used: %s", quote.Text(id), quote.Name(key), why)
			continue
		}
		if _, twice := ids[networkType]; twice {
			invalid.Add("networkIds has type %s twice, in upper and lower case: remove one", quote.Name(networkType))
		}
		ids[networkType] = id
	}
	return ids
}
