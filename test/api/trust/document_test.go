// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// document is the inventory below the root folder.
const document = "docs/security/trust.md"

var update = flag.Bool("update", false, "write "+document+" instead of comparing it")

// identity are fields that name an object or count its life. The API server writes them, names
// at creation alone.
var identity = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.generation",
	"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.generateName",
}

// rowOf returns the row that a field belongs to, nil without one.
func rowOf(kind, path string) *row {
	path = strings.Replace(path, "spec.initContainers", "spec.containers", 1)
	var best *row
	length := -1
	for i := range table {
		r := &table[i]
		for _, k := range r.kinds {
			if k != kind && k != "*" {
				continue
			}
			for _, field := range r.fields {
				n := 2 * len(field)
				if k == "*" {
					n--
				}
				if covers(field, path) && n > length {
					best, length = r, n
				}
			}
		}
	}
	return best
}

// covers reports whether the path of a row covers a path: both are equal, or the second is below
// the first. A row for all labels or annotations covers the path of every key.
func covers(field, path string) bool {
	if field == path || strings.HasPrefix(path, field+".") || strings.HasPrefix(path, field+"[") {
		return true
	}
	start, all := strings.CutSuffix(field, "[*]")
	return all && strings.HasPrefix(path, start+"[")
}

// pathsOf returns the fields that are neither identity nor the whole object.
func pathsOf(list []reads.Read) []string {
	var all []string
	for _, read := range list {
		if !slices.Contains(identity, read.Path) && read.Path != "**" && !slices.Contains(all, read.Path) {
			all = append(all, read.Path)
		}
	}
	return all
}

// TestTrustTable_EachReadField_Listed fails where somebody adds a read without a decision about the
// trust in the field.
func TestTrustTable_EachReadField_Listed(t *testing.T) {
	found, calls := productReads(t)
	used := map[*row]bool{}
	for kind, list := range found {
		for _, read := range list {
			if slices.Contains(identity, read.Path) {
				continue
			}
			r := rowOf(kind.Kind, read.Path)
			if r == nil {
				t.Errorf("%s reads %s of %s, which has no row: say in table_test.go what is believed of it, and run: make trust", read.Place, read.Path, kind.Kind)
			}
			used[r] = true
		}
	}
	for i := range table {
		if !used[&table[i]] {
			t.Errorf("the row of %s of %s stands for no field that is read: remove it", table[i].fields, table[i].kinds)
		}
	}
	for _, call := range calls {
		if opaque[call] == "" {
			t.Errorf("%s calls %s with an object of any kind: add the function to the carriers, or the call with a reason to the opaque ones", call.File, call.Function)
		}
	}
}

// TestTrustTable_NamedTests_Exist looks for the tests that the table names.
func TestTrustTable_NamedTests_Exist(t *testing.T) {
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table {
		if r.test != "" && !names[r.test] {
			t.Errorf("the row of %s of %s names %s, which does not exist", r.fields, r.kinds, r.test)
		}
	}
}

// TestTrustInventory_Document_MatchesAPIServer asks the real API server who may write each field,
// and compares the document with the answer. With -update it writes the document.
func TestTrustInventory_Document_MatchesAPIServer(t *testing.T) {
	found, _ := productReads(t)
	paths := map[schema.GroupKind][]string{}
	for kind, list := range found {
		paths[kind] = pathsOf(list)
	}
	may := writtenBy(t, paths)
	for kind := range paths {
		if may[kind] == nil && kind.Kind != "DaemonSet" {
			t.Errorf("test/api/samples/samples.yaml has no %s, which the product reads", kind)
		}
	}
	text := render(t, paths, may)
	if t.Failed() {
		return
	}
	file := filepath.Join(root, document)
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, text) {
		t.Errorf("%s is not as computed; look at what changed, then run: make trust\n%s", document, gocmp.Diff(string(kept), string(text)))
	}
}

const preface = `# Trust inventory

This page has every field of the API that the operator or a node's daemon reads, with its writers and what Alioth believes of it. A test generates it: ` + "`make trust`" + ` writes it again. The fields are computed from the types of the source. The writers are computed on a real API server with the roles and policies of the chart: each write is tried. The belief in each field, and the check before, stand in a table in ` + "`test/api/trust`" + `. [013](../design/013-the-trust-inventory.md) describes the method.

| writer | meaning |
| --- | --- |
| everybody, pod | an authenticated person, or a ServiceAccount, without any role |
| tenant | the owner of a namespace with all rights in it, also on subresources. No role of the chart gives so much |
| daemon, kubelet | a token of the node that the object is about |
| daemon of another node, kubelet of another node | such a token of a different node |

Where none of these may write, the column has who has a right: the operator, an administrator, or both. "create" and "update" are writes of the object, other words are its subresources. A writer counts as one if some value may pass. The line above each table has the admission policies for the kind. They may refuse the operator or an administrator, too. Each field that a writer of this table may write names a hostile test.

The API server writes the name, namespace, UID, version, generation and times of every object. All controllers read them, and believe them.
`

// render makes the document.
func render(t *testing.T, paths map[schema.GroupKind][]string, may map[schema.GroupKind]*writers) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(preface)
	order := slices.SortedFunc(maps.Keys(paths), func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	for _, kind := range order {
		if may[kind] == nil || len(paths[kind]) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n", strings.TrimSuffix(kind.Kind+"."+kind.Group, "."))
		fmt.Fprintf(
			&out,
			"Deleted by: %s. Policies: %s.\n\n",
			cmp.Or(strings.Join(hostileOf(may[kind].deleters), ", "), "none of these writers"),
			cmp.Or(strings.Join(may[kind].policies, ", "), "none"),
		)
		out.WriteString("| fields | written by | believed | check | test |\n| --- | --- | --- | --- | --- |\n")
		for _, line := range linesOf(t, kind.Kind, paths[kind], may[kind]) {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}

func hostileOf(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !principalNamed(name).tried })
}

// linesOf makes one line of all fields of a row with the same writers.
func linesOf(t *testing.T, kind string, paths []string, may *writers) []string {
	t.Helper()
	type group struct {
		row     *row
		writers string
	}
	fields := map[group][]string{}
	for _, path := range paths {
		r := rowOf(kind, path)
		if r == nil {
			t.Errorf("%s of %s has no row", path, kind)
			continue
		}
		by := writersOf(may.fields[path], true)
		if by != "" && r.test == "" {
			t.Errorf("%s of %s may be written by %s, and its row names no hostile test", path, kind, by)
		}
		by = cmp.Or(by, writersOf(may.fields[path], false), "nobody")
		g := group{r, by}
		fields[g] = append(fields[g], path)
	}
	var lines []string
	for g, all := range fields {
		slices.Sort(all)
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n",
			strings.Join(all, "`, `"), g.writers, g.row.believed, g.row.check, g.row.test))
	}
	slices.Sort(lines)
	return lines
}

// writersOf lists the writers with the ways: the writers whose word alone is not believed, or other
// writers with a right.
func writersOf(may map[string][]string, tried bool) string {
	var all []string
	for _, who := range principals() {
		switch ways := may[who.name]; {
		case len(ways) == 0 || who.tried != tried:
		case tried:
			all = append(all, who.name+" ("+strings.Join(ways, ", ")+")")
		default:
			all = append(all, who.name)
		}
	}
	return strings.Join(all, ", ")
}
