# Of a .proto file: "Message.NUMBER TYPE" of each field, "Message.NUMBER reserved" of each number given up. What a
# field is called does not cross the wire.
function add(number, type) { print message "." number " " type }
{ sub(/\/\/.*/, "") }
/^message / { message = $2 }
/^ *reserved / {
    gsub(/reserved|;|,/, " ")
    for (i = 1; i <= NF; i++) {
        if ($(i + 1) == "to") {
            for (n = $i; n <= $(i + 2); n++) add(n, "reserved")
            i += 2
        } else {
            add($i, "reserved")
        }
    }
    next
}
/= *[0-9]+;/ {
    gsub(/[=;]/, " ")
    add($NF, $1 == "repeated" ? "repeated " $2 : $1)
}
