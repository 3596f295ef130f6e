// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/hostile"
	"github.com/alioth-net/alioth/test/soak"
)

// hostileAddrs and hostilePrefixes are the values of the fields of these types.
var (
	hostileAddrs    = append(ips(hostile.Addresses...), netip.Addr{})
	hostilePrefixes = append(prefixes(hostile.Prefixes...), netip.Prefix{})
)

// edit changes one field of a row to one value.
type edit struct {
	name  string
	apply func(row reflect.Value)
}

// edits are all changes of one field of a type, which path leads to from a row. Metadata
// comes from the API server alone, so only its age and its end count.
func edits(of reflect.Type, name string, path func(reflect.Value) reflect.Value) (list []edit) {
	set := func(text string, value any) {
		list = append(list, edit{name + "=" + text, func(row reflect.Value) {
			if field := path(row); field.IsValid() {
				field.Set(reflect.ValueOf(value).Convert(of))
			}
		}})
	}
	switch {
	case of == reflect.TypeFor[netip.Addr]():
		for _, value := range hostileAddrs {
			set(value.String(), value)
		}
	case of == reflect.TypeFor[netip.Prefix]():
		for _, value := range hostilePrefixes {
			set(value.String(), value)
		}
	case of == reflect.TypeFor[store.Meta]():
		return edits(reflect.TypeFor[bool](), name+".Deleting", func(row reflect.Value) reflect.Value { return path(row).FieldByName("Deleting") })
	case of == reflect.TypeFor[time.Time]():
		set("past", time.Unix(-1<<40, 0))
	case of == reflect.TypeFor[time.Duration]():
		for _, value := range []time.Duration{-1, 1, time.Second, 48 * time.Hour, math.MaxInt64} {
			set(value.String(), value)
		}
	default:
		return append(list, editsOfKind(of, name, path)...)
	}
	return list
}

// editsOfKind returns the edits of a type that rows do not have as a value.
func editsOfKind(of reflect.Type, name string, path func(reflect.Value) reflect.Value) (list []edit) {
	then := func(what string, change func(field reflect.Value)) {
		list = append(list, edit{name + what, func(row reflect.Value) {
			if field := path(row); field.IsValid() {
				change(field)
			}
		}})
	}
	switch of.Kind() {
	case reflect.String:
		for _, value := range hostile.Texts {
			then("="+value[:min(len(value), 20)], func(field reflect.Value) { field.SetString(value) })
		}
	case reflect.Bool:
		then("=not", func(field reflect.Value) { field.SetBool(!field.Bool()) })
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		for _, value := range hostile.Numbers {
			then(fmt.Sprint("=", value), func(field reflect.Value) { field.SetUint(value & (1<<of.Bits() - 1)) })
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		for _, value := range hostile.Numbers {
			then(fmt.Sprint("=", int64(value)), func(field reflect.Value) { field.SetInt(int64(value)) })
		}
	case reflect.Slice:
		then("=none", func(field reflect.Value) { field.SetZero() })
		then("=twice", func(field reflect.Value) { field.Set(reflect.AppendSlice(field, field)) })
		list = append(list, edits(of.Elem(), name+"[0]", func(row reflect.Value) reflect.Value {
			if field := path(row); field.IsValid() && field.Len() > 0 {
				return field.Index(0)
			}
			return reflect.Value{}
		})...)
	case reflect.Map:
		then("=none", func(field reflect.Value) { field.SetZero() })
	case reflect.Pointer:
		then("=none", func(field reflect.Value) { field.SetZero() })
		list = append(list, edits(of.Elem(), name, func(row reflect.Value) reflect.Value {
			if field := path(row); field.IsValid() && !field.IsNil() {
				return field.Elem()
			}
			return reflect.Value{}
		})...)
	case reflect.Struct:
		for i := range of.NumField() {
			list = append(list, edits(of.Field(i).Type, name+"."+of.Field(i).Name, func(row reflect.Value) reflect.Value {
				if outer := path(row); outer.IsValid() {
					return outer.Field(i)
				}
				return reflect.Value{}
			})...)
		}
	default:
		panic(fmt.Sprintf("no hostile value for %s of type %s", name, of))
	}
	return list
}

// editsOf are the edits of a row of a type.
func editsOf(row reflect.Type) []edit {
	return edits(row, row.Name(), func(row reflect.Value) reflect.Value { return row })
}

// deepCopy copies a row with all that it leads to.
func deepCopy(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			to.Set(reflect.New(v.Type().Elem()))
			to.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				to.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if to.Field(i).CanSet() {
				to.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	}
	return to
}

// arena is a healthy world with the rows of a hostile tenant beside it.
type arena struct {
	*world
	// adapt is the configuration.
	adapt func(*Config)
	// mine are the rows of the hostile tenant, by their type.
	mine map[reflect.Type]any
	// healthy is the plan without them, and theirs the rows of the healthy world.
	healthy map[string]string
	outcome map[string]int
}

var errUndone = errors.New("only for this plan")

// rowsOf are the rows of a plan as text, of the datapath, the devices and the packet filter.
func rowsOf(w whole) map[string]string {
	all := w.Datapath.Rows()
	for _, pod := range w.Devices.Pods {
		all["device "+pod.Device] = fmt.Sprint(pod)
	}
	all["node's interface"] = fmt.Sprint(w.Devices.Node)
	for _, port := range w.Filter.HostPorts {
		all[fmt.Sprint("hostPort ", port.Protocol, port.HostIP, port.HostPort, port.Shadow)] = fmt.Sprint(port)
	}
	for _, f := range w.Filter.Frontends {
		all[fmt.Sprint("frontend ", f.IP, f.Protocol, f.Port)] = fmt.Sprint(*f)
	}
	for _, check := range w.Health {
		all[fmt.Sprint("health check ", check.Service)] = fmt.Sprint(check)
	}
	return all
}

// invalid returns the first contradiction of a plan.
func invalid(w whole) error {
	parts := w.Datapath.Parts()
	return errors.Join(parts.Validate(parts.Since(state.Parts{}), state.Parts{}), w.Devices.Validate(), w.Filter.Validate())
}

// hostileCase is a change of some rows of the hostile tenant.
type hostileCase struct {
	name string
	rows map[reflect.Type]any
}

// plan plans with the rows of a case in the place of the hostile tenant's, and undoes them. It
// reports false where the API has no such rows: they are refused, or they are another's.
func (a *arena) plan(c hostileCase) (got whole, taken bool) {
	err := a.store.Update(func(tx store.Tx) error {
		for of, row := range c.rows {
			kind := kindOf(row)
			if kind.Check(row) != nil {
				a.outcome["refused"]++
				continue
			}
			theirs := a.theirs(tx)
			if err := kind.Delete(tx, idOf(a.mine[of])); err != nil {
				return err
			}
			if err := kind.Put(tx, row); err != nil {
				a.outcome["in conflict"]++
				continue
			}
			if !reflect.DeepEqual(theirs, a.theirs(tx)) {
				a.outcome["the object itself"]++ // the API has one object of a name
				taken = false
				return errUndone
			}
			taken = true
		}
		got, taken = together(Build(tx, a.input(a.adapt))), true
		return errUndone
	})
	if !errors.Is(err, errUndone) {
		panic(err)
	}
	return got, taken
}

// try plans a case, and finds what is wrong with the plan.
func (a *arena) try(t *testing.T, c hostileCase) {
	t.Helper()
	got, taken := a.plan(c)
	if !taken {
		return
	}
	a.outcome["planned"]++
	if err := invalid(got); err != nil {
		t.Errorf("%s: %v", c.name, err)
		return
	}
	rows := rowsOf(got)
	for key, content := range a.healthy {
		if is, ok := rows[key]; is != content && is != frontedDefault(content) {
			t.Errorf("%s: the healthy world's %s is %q (there: %t), and was %q", c.name, key, is, ok, content)
			return
		}
	}
}

// TestPlan_HostileRow_OthersUnchanged sets each field of each type of row that a plan
// depends on to each hostile value, one at a time and some in pairs.
func TestPlan_HostileRow_OthersUnchanged(t *testing.T) {
	for name, a := range map[string]*arena{"judged here": newArena(t, false), "judged by the operator": newArena(t, true)} {
		t.Run(name, func(t *testing.T) {
			a.try(t, hostileCase{name: "unchanged"})
			var all []hostileCase
			for of, row := range a.mine {
				for _, e := range editsOf(of.Elem()) {
					changed := deepCopy(reflect.ValueOf(row))
					e.apply(changed.Elem())
					all = append(all, hostileCase{of.String()[1:] + ": " + e.name, map[reflect.Type]any{of: changed.Interface()}})
				}
			}
			all = slices.DeleteFunc(all, isRightful)
			slices.SortFunc(all, func(x, y hostileCase) int { return strings.Compare(x.name, y.name) })
			for _, c := range all {
				a.try(t, c)
			}
			a.tryPairs(t, all)
			t.Logf("%d cases of single fields: %v", len(all), a.outcome)
			if a.outcome["planned"] < 1000 || a.outcome["refused"] < 100 {
				t.Errorf("too few cases: %v", a.outcome)
			}
		})
	}
}

// isRightful reports whether a case is an order by one who may give it. An administrator's
// SharedService makes a Service of any tenant a shared one. The operator alone writes
// ScaledEndpoints, and the last one about a Service counts.
func isRightful(c hostileCase) bool {
	return strings.HasPrefix(c.name, "store.SharedService: ") || c.name == "scaled.Endpoint: Endpoint.ID.Namespace=blue"
}

// frontedDefault is the row of the default VPC once a Service of it keeps the addresses of clients
// outside. The hostile tenant's Service is one of the default VPC if the tenant has no Network for
// it, because an administrator has shared the Service. Another row is not changed by it.
func frontedDefault(content string) string {
	if !strings.Contains(content, "Default:true") {
		return content
	}
	return strings.Replace(content, "Fronted:false", "Fronted:true", 1)
}

// How many pairs of changes a mode tries, of some 14 million: make soak spends a minute on them.
const pairsInSoak, pairs = 50_000, 1500

// tryPairs tries random pairs of single changes, of two rows or of one. ALIOTH_SEED repeats a
// run.
func (a *arena) tryPairs(t *testing.T, all []hostileCase) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ALIOTH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range soak.Or(t, pairsInSoak, pairs) {
		x, y := all[random.IntN(len(all))], all[random.IntN(len(all))]
		both := hostileCase{x.name + " and " + y.name, map[reflect.Type]any{}}
		for _, c := range []hostileCase{x, y} {
			for of, row := range c.rows {
				both.rows[of] = row
			}
		}
		a.try(t, both)
	}
}

// TestPlan_ContradictoryRecord_OnlyItsPodCutOff has records as an attachment to hostile
// rows would leave them.
func TestPlan_ContradictoryRecord_OnlyItsPodCutOff(t *testing.T) {
	a := newArena(t, false)
	mine := slices.IndexFunc(a.records, func(rec journal.Record) bool { return rec.VPC == "bad" })
	last := a.records[mine]
	for name, change := range map[string]func(*journal.Record){
		"two addresses of a family": func(rec *journal.Record) { rec.Addrs = prefixes("10.66.1.10/24", "10.66.1.11/24") },
		"no address":                func(rec *journal.Record) { rec.Addrs = nil },
		"an address of many hosts":  func(rec *journal.Record) { rec.Addrs = prefixes("0.0.0.0/24") },
		"a MAC of many stations":    func(rec *journal.Record) { rec.MAC = journal.MAC{1} },
		"no MAC":                    func(rec *journal.Record) { rec.MAC = journal.MAC{} },
		"a shadow of no address":    func(rec *journal.Record) { rec.Shadow6 = ip("fd41:6c69:6f74:6801::77") },
	} {
		t.Run(name, func(t *testing.T) {
			rec := last
			change(&rec)
			a.records = slices.Clone(a.records)
			a.records[mine] = rec
			a.hold(rec)
			a.try(t, hostileCase{name: name})
			got, _ := a.plan(hostileCase{name: name})
			if !slices.ContainsFunc(got.Lost, func(l Lost) bool { return l.Record.Seq == last.Seq && l.Reason != "" }) {
				t.Errorf("the attachment is not cut off: %+v", got.Lost)
			}
		})
	}
}
