{{- /*
Checks of values that values.schema.json can't have: addresses, and values that depend on
each other. Each message has the value and the remedy. They need no cluster, so
"helm template" and "helm lint" make them too.
*/ -}}
{{- define "alioth.checkValues" -}}
{{- include "alioth.checkHost" . -}}
{{- include "alioth.checkRanges" . -}}
{{- include "alioth.checkSubnets" . -}}
{{- include "alioth.checkShadows" . -}}
{{- include "alioth.checkTypes" . -}}
{{- include "alioth.checkPorts" . -}}
{{- include "alioth.checkFolders" . -}}
{{- include "alioth.checkPods" . -}}
{{- include "alioth.checkImage" . -}}
{{- end -}}

{{/* The bits of an address, as a text of 32 or 128 zeros and ones; empty if the text is not an address. */}}
{{- define "alioth.bits" -}}
{{- $digits := "" -}}
{{- if contains ":" . -}}
{{- $halves := splitList "::" . -}}
{{- $left := without (splitList ":" (first $halves)) "" -}}
{{- $right := ternary (without (splitList ":" (last $halves)) "") list (gt (len $halves) 1) -}}
{{- $missing := int (sub 8 (add (len $left) (len $right))) -}}
{{- if and (lt (len $halves) 3) (eq (gt (len $halves) 1) (gt $missing 0)) (ge $missing 0) (not (regexMatch "^:[^:]|[^:]:$|:::" .)) -}}
{{- range concat $left (splitList "" (repeat $missing "0")) $right -}}
{{- if regexMatch "^[0-9a-fA-F]{1,4}$" . -}}
{{- $digits = printf "%s%s" $digits (trunc -4 (printf "0000%s" (lower .))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ne (len $digits) 32 -}}{{- $digits = "" -}}{{- end -}}
{{- else if regexMatch "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.]|$)){4}$" . -}}
{{- range splitList "." . -}}
{{- $digits = printf "%s%02x" $digits (int .) -}}
{{- end -}}
{{- end -}}
{{- $bits := dict "0" "0000" "1" "0001" "2" "0010" "3" "0011" "4" "0100" "5" "0101" "6" "0110" "7" "0111" "8" "1000" "9" "1001" "a" "1010" "b" "1011" "c" "1100" "d" "1101" "e" "1110" "f" "1111" -}}
{{- range splitList "" $digits -}}
{{- get $bits . -}}
{{- end -}}
{{- end -}}

{{/*
The family of a range, a colon, and the bits of its prefix: of two ranges that overlap, one
such text begins with the other. .what is the name of the value.
*/}}
{{- define "alioth.network" -}}
{{- $bits := include "alioth.bits" (splitList "/" .cidr | first) -}}
{{- $length := splitList "/" .cidr | last | int -}}
{{- if or (not $bits) (gt $length (len $bits)) -}}
{{- fail (printf "%s: %q is no range of addresses: give one such as 10.96.0.0/16 or fd96::/112" .what .cidr) -}}
{{- end -}}
{{- if contains "1" (substr $length (len $bits) $bits) -}}
{{- fail (printf "%s: %q has host bits: give the first address of the range before /%d, such as 10.96.0.0/16 and not 10.96.0.1/16" .what .cidr $length) -}}
{{- end -}}
{{- contains ":" .cidr | ternary "6" "4" }}:{{ substr 0 $length $bits -}}
{{- end -}}

{{- define "alioth.checkHost" -}}
{{- $host := include "alioth.apiServerHost" . -}}
{{- if or (contains ":" $host) (regexMatch "^[0-9.]+$" $host) -}}
{{- $bits := include "alioth.bits" $host -}}
{{- if not (contains "1" $bits) -}}
{{- fail (printf "apiServer.host: %q is no address of a host: give a name or an address without the port, which is in apiServer.port" $host) -}}
{{- end -}}
{{- range ternary .Values.defaultVPC.cidrs list .Values.defaultVPC.enabled -}}
{{- $address := printf "%s:%s" (contains ":" $host | ternary "6" "4") $bits -}}
{{- if hasPrefix (include "alioth.network" (dict "what" "defaultVPC.cidrs" "cidr" .)) $address -}}
{{- fail (printf "defaultVPC.cidrs: %s contains apiServer.host (%s): give a range that does not overlap the nodes' networks" . $host) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.metadataAddresses -}}
{{- if not (contains "1" (include "alioth.bits" .)) -}}
{{- fail (printf "metadataAddresses: %q is no address of a host" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Every range is valid, and the ranges of services, shadow addresses and the default VPC do not overlap. */}}
{{- define "alioth.checkRanges" -}}
{{- $vpc := .Values.defaultVPC -}}
{{- range $what, $cidrs := dict "infrastructureCIDRs" .Values.infrastructureCIDRs "nodeIPAM.infraCIDRs" .Values.nodeIPAM.infraCIDRs "defaultVPC.egressAllow" $vpc.egressAllow "defaultVPC.egressDeny" $vpc.egressDeny -}}
{{- range $cidrs -}}
{{- $_ := include "alioth.network" (dict "what" $what "cidr" .) -}}
{{- end -}}
{{- end -}}
{{- $apart := list -}}
{{- range $what, $cidrs := dict "serviceCIDRs" .Values.serviceCIDRs "shadowCIDRs" .Values.shadowCIDRs "defaultVPC.cidrs" (ternary $vpc.cidrs list $vpc.enabled) -}}
{{- range $cidrs -}}
{{- $network := include "alioth.network" (dict "what" $what "cidr" .) -}}
{{- $apart = append $apart (dict "what" $what "cidr" . "network" $network) -}}
{{- end -}}
{{- end -}}
{{- $reserved := list "0.0.0.0/8" "127.0.0.0/8" "169.254.0.0/16" "224.0.0.0/3" "::/8" "fe80::/10" "ff00::/8" -}}
{{- range $i, $one := $apart -}}
{{- range $cidr := ternary $reserved list (eq $one.what "defaultVPC.cidrs") -}}
{{- $network := include "alioth.network" (dict "what" "reserved" "cidr" $cidr) -}}
{{- if or (hasPrefix $one.network $network) (hasPrefix $network $one.network) -}}
{{- fail (printf "defaultVPC.cidrs: %s overlaps the reserved range %s: give another range, such as 10.244.0.0/16" $one.cidr $cidr) -}}
{{- end -}}
{{- end -}}
{{- range $other := slice $apart (add1 $i) -}}
{{- /* The API server allows service ranges that overlap each other. */ -}}
{{- if and (or (hasPrefix $one.network $other.network) (hasPrefix $other.network $one.network)) (or (ne $one.what "serviceCIDRs") (ne $other.what "serviceCIDRs")) -}}
{{- fail (printf "%s: %s overlaps %s of %s: give ranges that do not overlap" $one.what $one.cidr $other.cidr $other.what) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The subnets of the default VPC are inside of it, and apart. */}}
{{- define "alioth.checkSubnets" -}}
{{- $vpc := .Values.defaultVPC -}}
{{- $names := list -}}
{{- $earlier := list -}}
{{- range ternary $vpc.subnets list $vpc.enabled -}}
{{- if has .name $names -}}
{{- fail (printf "defaultVPC.subnets: two subnets have the name %q: give each a name of its own" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $families := list -}}
{{- range $cidr := .cidrs -}}
{{- $network := include "alioth.network" (dict "what" "defaultVPC.subnets" "cidr" $cidr) -}}
{{- $inside := false -}}
{{- range $vpc.cidrs -}}
{{- if hasPrefix (include "alioth.network" (dict "what" "defaultVPC.cidrs" "cidr" .)) $network -}}{{- $inside = true -}}{{- end -}}
{{- end -}}
{{- if not $inside -}}
{{- fail (printf "defaultVPC.subnets: %s is outside of defaultVPC.cidrs (%s)" $cidr (join ", " $vpc.cidrs)) -}}
{{- end -}}
{{- if has (trunc 1 $network) $families -}}
{{- fail (printf "defaultVPC.subnets: %s is the second range of its family in one subnet: make another subnet" $cidr) -}}
{{- end -}}
{{- $families = append $families (trunc 1 $network) -}}
{{- range $earlier -}}
{{- if or (hasPrefix . $network) (hasPrefix $network .) -}}
{{- fail (printf "defaultVPC.subnets: %s overlaps the range of an earlier subnet: give ranges that do not overlap" $cidr) -}}
{{- end -}}
{{- end -}}
{{- $earlier = append $earlier $network -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One range per family, with an address for each pod of a node: by default up to 110. */}}
{{- define "alioth.checkShadows" -}}
{{- $families := list -}}
{{- range .Values.shadowCIDRs -}}
{{- $family := trunc 1 (include "alioth.network" (dict "what" "shadowCIDRs" "cidr" .)) -}}
{{- if has $family $families -}}
{{- fail (printf "shadowCIDRs: %s is the second range of its family: give one IPv4 and one IPv6 range at most" .) -}}
{{- end -}}
{{- $families = append $families $family -}}
{{- $longest := eq $family "4" | ternary 25 121 -}}
{{- if gt (splitList "/" . | last | int) $longest -}}
{{- fail (printf "shadowCIDRs: %s has too few addresses for the pods of a node: give a range of /%d or larger, such as 169.254.64.0/18 or fd41:6c69:6f74:6801::/64" . $longest) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A type of networks on devices of the nodes can't mean the VPC of the pod, too. */}}
{{- define "alioth.checkTypes" -}}
{{- range .Values.multiNetwork.vpcTypes -}}
{{- if contains (squote .) (include "alioth.dynamicTypes" $) -}}
{{- fail (printf "multiNetwork.vpcTypes: networks of type %s are on devices of the nodes: name types that mean the VPC of the pod, such as flannel" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* No two programs listen at one port of a node. */}}
{{- define "alioth.checkPorts" -}}
{{- if eq (int .Values.tunnelPort) (int .Values.hostLinks.vxlanPort) -}}
{{- fail (printf "hostLinks.vxlanPort: %d is tunnelPort too: give another port, such as 14789" (int .Values.tunnelPort)) -}}
{{- end -}}
{{- $used := list (list "daemon.healthPort" .Values.daemon.healthPort) (list "daemon.metricsPort" .Values.daemon.metricsPort) -}}
{{- if .Values.daemon.proxyHealth -}}{{- $used = append $used (list "daemon.proxyHealth" 10256) -}}{{- end -}}
{{- if and .Values.nodeIPAM.enabled .Values.nodeIPAM.listen -}}
{{- $used = append $used (list "nodeIPAM.listen" (splitList ":" .Values.nodeIPAM.listen | last)) -}}
{{- end -}}
{{- range $i := until (int (mul 2 .Values.operator.replicas)) -}}
{{- $used = append $used (list (printf "operator.port + %d" $i) (add $.Values.operator.port $i)) -}}
{{- end -}}
{{- $holders := dict -}}
{{- range $used -}}
{{- $port := last . | int | toString -}}
{{- if hasKey $holders $port -}}
{{- fail (printf "%s: port %s of the node is that of %s, too: give another port" (first .) $port (get $holders $port)) -}}
{{- end -}}
{{- $_ := set $holders $port (first .) -}}
{{- end -}}
{{- end -}}

{{/* Each folder is mounted at its own path, once. */}}
{{- define "alioth.checkFolders" -}}
{{- $mounted := list "/sys/fs/bpf" "/sys/fs/cgroup" "/run/netns" "/var/run/netns" "/run/alioth" "/var/lib/alioth" "/lib/modules" "/var/lib/kubelet/pod-resources" -}}
{{- range $what, $folder := dict "daemon.cniBinDir" .Values.daemon.cniBinDir "daemon.cniConfDir" .Values.daemon.cniConfDir "daemon.cgroupRoot" .Values.daemon.cgroupRoot "nodeIPAM.podCgroup" .Values.nodeIPAM.podCgroup -}}
{{- if regexMatch "/[.][.]?(/|$)" $folder -}}
{{- fail (printf "%s: %s has a part that is . or ..: give the path without it" $what $folder) -}}
{{- end -}}
{{- end -}}
{{- range $what, $folder := dict "daemon.cniBinDir" .Values.daemon.cniBinDir "daemon.cniConfDir" .Values.daemon.cniConfDir -}}
{{- if has (clean $folder) $mounted -}}
{{- fail (printf "%s: %s is a folder of the daemon already: give the folder of the container runtime, such as /opt/cni/bin or /etc/cni/net.d" $what $folder) -}}
{{- end -}}
{{- $mounted = append $mounted (clean $folder) -}}
{{- end -}}
{{- end -}}

{{/*
An image has one digest. It is not of an older minor version than the chart, which has objects and hooks that such
programs do not know. Values that an upgrade takes over may name one. A tag that is no version,
and a newer one, are the user's choice.
*/}}
{{- define "alioth.checkImage" -}}
{{- if and .Values.image.digest (contains "@" .Values.image.repository) -}}
{{- fail (printf "image.repository: %q ends with the begin of a digest, and image.digest is set too: give the repository without it" .Values.image.repository) -}}
{{- end -}}
{{- $tag := .Values.image.tag -}}
{{- if and (not .Values.image.digest) (regexMatch "^v?[0-9]{1,9}[.][0-9]{1,9}[.][0-9]" $tag) -}}
{{- $image := trimPrefix "v" $tag | splitList "." -}}
{{- $chart := splitList "." .Chart.AppVersion -}}
{{- $major := sub (first $image | atoi) (first $chart | atoi) -}}
{{- if or (lt $major 0) (and (eq $major 0) (lt (index $image 1 | atoi) (index $chart 1 | atoi))) -}}
{{- fail (printf "image.tag: %s is an older version than %s of the chart: delete the value, or give the tag of an image of that version" $tag .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A container has each variable once, and a pod each label and annotation. */}}
{{- define "alioth.checkPods" -}}
{{- $ours := list "KUBERNETES_SERVICE_HOST" "KUBERNETES_SERVICE_PORT" "HTTP2_READ_IDLE_TIMEOUT_SECONDS" "HTTP2_PING_TIMEOUT_SECONDS" "HOST_IP" "POD_NAMESPACE" "POD_NAME" "NODE_NAME" -}}
{{- range $what, $program := dict "operator" .Values.operator "daemon" .Values.daemon -}}
{{- $names := list -}}
{{- range $program.extraEnv -}}
{{- if has .name $ours -}}
{{- fail (printf "%s.extraEnv: the chart sets %s: use the chart's values, or another name" $what .name) -}}
{{- end -}}
{{- if has .name $names -}}
{{- fail (printf "%s.extraEnv: %s is there twice: leave one out" $what .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $key, $_ := $program.podLabels -}}
{{- if regexMatch "^(app[.]kubernetes[.]io/(name|instance|version|managed-by|component)|helm[.]sh/chart|alioth[.]dev/.*)$" $key -}}
{{- fail (printf "%s.podLabels: the chart sets %s, or its programs do: use another key" $what $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := $program.podAnnotations -}}
{{- if or (eq $key "kubectl.kubernetes.io/default-container") (hasPrefix "alioth.dev/" $key) -}}
{{- fail (printf "%s.podAnnotations: the chart sets %s, or its programs do: use another key" $what $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
