package trust_test

import (
	"fmt"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sort"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	r, o := productReads(t)
	for _, x := range o {
		if opaque[x] == "" {
			carried := false
			fmt.Println("OPAQUE", x, carried)
		}
	}
	paths := map[schema.GroupKind][]string{}
	for k, l := range r {
		for _, x := range l {
			if strings.HasPrefix(x.Path, "metadata.") && !strings.Contains(x.Path, "[") && !strings.HasSuffix(x.Path, "finalizers") && !strings.HasSuffix(x.Path, "ownerReferences") {
				continue
			}
			if x.Path == "**" {
				continue
			}
			paths[k] = append(paths[k], x.Path)
		}
	}
	w := writtenBy(t, paths)
	var lines []string
	for k, ps := range paths {
		if w[k] == nil {
			fmt.Println("NOSAMPLE", k)
			continue
		}
		for _, p := range ps {
			lines = append(lines, fmt.Sprint(k.Kind, ".", k.Group, " ", p, " ", w[k].fields[p], " ", w[k].refusals[p]))
		}
		lines = append(lines, fmt.Sprint(k.Kind, ".", k.Group, " DELETE ", w[k].deleters))
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Println(l)
	}
}
